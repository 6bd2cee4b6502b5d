"""A stand-in for docker with the contract that oeactl relies on: argv, output, exit codes, private files.

Run as a program, with STANDIN_DOCKER (``standin_engine``). Any other argv than those below is an error, as
with a real docker.
"""

from __future__ import annotations

import sys

from tests.support.standin_engine import (
    ROOT,
    Failure,
    begin,
    change,
    container,
    copy_in,
    copy_out,
    differences,
    documents,
    end,
    find,
    follow,
    image,
    last_lines,
    make,
    remove,
    rename,
    run_inside,
    show,
)  # fmt: skip
from tests.support.standin_options import options


def main(words: list[str]) -> int:
    match words:
        case ["inspect", "--type", "container", name]:
            return show(find(name))
        case ["inspect", "--type", "image", name]:
            return show(image(name))
        case ["start", name]:
            begin(container(name))
        case ["stop", "-t", seconds, name] if seconds.isdigit():
            end(container(name), int(seconds))
        case ["rm", name]:
            remove(container(name))
        case ["rename", name, new]:
            rename(container(name), new)
        case ["update", policy, name] if policy.startswith("--restart="):
            change(container(name), lambda doc: doc["HostConfig"]["RestartPolicy"].update(Name=policy[10:]))
        case ["create", "--pull", "never", "--name", name, *rest]:
            print(make(name, *options(rest)))
            return 0
        case ["run", "-d", "--name", name, *rest]:
            identity = make(name, *options(rest))
            begin(container(name))
            print(identity)
            return 0
        case ["ps", "-a", "-q", "--no-trunc", "--filter", label] if label.startswith("label="):
            name = label.removeprefix("label=")
            print("\n".join(doc["Id"] for doc in documents() if name in doc["Config"]["Labels"]))
            return 0
        case ["diff", name]:
            return differences(container(name))
        case ["logs", "--tail", count, name]:
            print("\n".join(last_lines(container(name), int(count))))
            return 0
        case ["logs", "-f", "--tail", count, name]:
            return follow(container(name), "\n".join(last_lines(container(name), int(count))))
        case ["logs", "-f", "--since", _, name]:
            return follow(container(name), "")
        case ["cp", "-a", source, "-"] if ":" in source:
            return copy_out(*source.split(":", 1))
        case ["cp", "-a", "-", target] if ":" in target:
            return copy_in(*target.split(":", 1))
        case ["exec", "-i", name, *argv]:
            return run_inside(container(name), argv)
        case ["compose", *rest]:
            from tests.support.standin_compose import compose  # it needs yaml, which takes a while

            return compose(rest)
        case _:
            raise Failure(f"unknown flag or command: {words}", 125)
    print(words[-1])
    return 0


if __name__ == "__main__":
    with (ROOT / "argv").open("a") as told:
        told.write(f"{sys.argv[1:]}\n")
    try:
        sys.exit(main(sys.argv[1:]))
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.code)
