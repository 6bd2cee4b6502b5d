"""What a change of a host's file costs, against ansible-core and pyinfra making an edit of equal size.

    python benchmarks/hosts.py [--rounds 7] [--many 16] [--most 64] [--sshds 4] [--write PAGE]

The same sshds on loopback, the same keys, engines of the same bytes: ``oeactl patch --no-restart`` with a
recipe that inserts twelve lines, ansible's ``blockinfile``, pyinfra's ``files.block``. Runs alternate;
reported are the medians, and the median of the ratios of the rounds. Each peer has a virtual environment of
its own in the cache (pip, by name and version). oeactl does more meanwhile: plans by syntax, keeps a journal
and the original, syncs, reads back.

Bars: one host faster than ansible and at most 1.5 times pyinfra; ``--many`` hosts at most as long as pyinfra.
Each host is a name of its own with an engine of its own, reached by a connection of its own, through one of
``--sshds`` servers in turn. The hosts' side shares this machine's cores, whose number the last line tells;
"CPU here" is what the program itself takes of them, which is what is left where the hosts are machines of
their own. The page's picture is written beside it, as an .svg of the same name.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oeactl.render.axes import Scale, columns_of, from_zero, mark, rows_of, svg, text
from oeactl.render.markup import Markup, el
from tests.support import sshd
from tests.support.cache import alone, cache_dir
from tests.support.fleet import BLOCK, FILE, Fleet, make_fleet

PEERS = {"ansible": "ansible-core==2.19.14", "pyinfra": "pyinfra==3.10.0"}
AFTER = "^    chosen = sorted"
ANSIBLE_BAR, PYINFRA_BAR, MANY_BAR = 1.0, 1.5, 1.0


class Run(NamedTuple):
    """Wall time, CPU time and the largest resident set of the program here."""

    seconds: float
    cpu_seconds: float
    mebibytes: float


class Size(NamedTuple):
    """What so many hosts took."""

    hosts: int
    seconds: float
    mebibytes: float


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A fleet, the sshd of each of its hosts, and a folder for the peers' files."""

    fleet: Fleet
    servers: Sequence[sshd.Sshd]
    folder: Path

    def server(self, host: str) -> sshd.Sshd:
        return self.servers[self.fleet.hosts.index(host) % len(self.servers)]

    def target(self, host: str) -> Path:
        return self.fleet.engine(host) / FILE

    def oeactl(self, hosts: Sequence[str]) -> Run:
        words = ("patch", "--recipe", "note", "--no-restart", "--yes", "--host", ",".join(hosts))
        argv = [sys.executable, "-m", "oeactl", *words, "--project", str(self.fleet.folder)]
        return timed(argv, self.fleet.env())

    def ansible(self, hosts: Sequence[str]) -> Run:
        lines = [
            f"{host} ansible_host=127.0.0.1 ansible_port={self.server(host).port} target={self.target(host)} "
            f"ansible_ssh_common_args='-F {self.server(host).ssh_config}' "
            f"ansible_python_interpreter={sys.executable}\n"
            for host in hosts
        ]
        (self.folder / "inventory.ini").write_text("".join(lines))
        block = "".join(f"          {line}\n" for line in BLOCK)
        (self.folder / "play.yaml").write_text(
            "- hosts: all\n  gather_facts: false\n  tasks:\n    - ansible.builtin.blockinfile:\n"
            f'        path: "{{{{ target }}}}"\n        insertafter: "{AFTER}"\n'
            f"        block: |2\n{block}"
        )
        program = peer("ansible") / "bin" / "ansible-playbook"
        argv = [str(program), "-f", str(len(hosts)), "-i", "inventory.ini", "play.yaml"]
        return timed(argv, {**clean(), "ANSIBLE_HOME": str(self.folder / "home")}, self.folder)

    def pyinfra(self, hosts: Sequence[str]) -> Run:
        rows = [
            (
                host,
                {
                    "ssh_hostname": "127.0.0.1",
                    "ssh_port": self.server(host).port,
                    "ssh_key": self.server(host).identity_file,
                    "ssh_known_hosts_file": str(self.server(host).known_hosts),
                    "target": str(self.target(host)),
                },
            )
            for host in hosts
        ]
        (self.folder / "inventory.py").write_text(f"hosts = {rows!r}\n")
        content = "\n".join(BLOCK)
        (self.folder / "deploy.py").write_text(
            "from pyinfra import host\nfrom pyinfra.operations import files\n"
            f"files.block(path=host.data.target, content={content!r}, line={AFTER!r}, after=True)\n"
        )
        return timed(
            [str(peer("pyinfra") / "bin" / "pyinfra"), "-y", "inventory.py", "deploy.py"],
            clean(),
            self.folder,
        )

    def checked(self, program: Callable[[Sequence[str]], Run], hosts: Sequence[str]) -> Run:
        """One run on fresh engines, and the block is there on every host."""
        self.fleet.reset()
        run = program(hosts)
        for host in hosts:
            assert BLOCK[-1] in self.target(host).read_text(), f"{program.__name__} did not change {host}"
        return run


def clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ANSIBLE"))}


def timed(argv: list[str], env: dict[str, str], folder: Path | None = None) -> Run:
    env = {key: value for key, value in env.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with TemporaryDirectory() as place:
        log = Path(place) / "log"
        begun = time.perf_counter()
        with log.open("wb") as output:
            process = subprocess.Popen(
                argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{argv[0]} ended with {process.returncode}\n{log.read_text()}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def peer(name: str) -> Path:
    """The peer's virtual environment, made once."""
    folder = cache_dir() / "peers" / PEERS[name]
    with alone("peers"):
        if not (folder / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            install = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", PEERS[name]]
            subprocess.run(install, check=True)
            (folder / "ready").touch()
    return folder


def compared(bench: Bench, hosts: Sequence[str], names: Sequence[str], rounds: int) -> dict[str, list[Run]]:
    """Runs of the programs in turn, the first round (which warms caches up) left out."""
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for _ in range(rounds + 1):
        for name in names:
            runs[name].append(bench.checked(getattr(bench, name), hosts))
    return {name: found[1:] for name, found in runs.items()}


def ratio(runs: dict[str, list[Run]], name: str) -> float:
    """The median over the rounds of oeactl's time by the peer's of the same round."""
    pairs = zip(runs["oeactl"], runs[name], strict=True)
    return statistics.median(ours.seconds / theirs.seconds for ours, theirs in pairs)


def rows(title: str, runs: dict[str, list[Run]], bars: dict[str, float]) -> Iterator[str]:
    for name, found in runs.items():
        seconds = statistics.median(run.seconds for run in found)
        cpu = statistics.median(run.cpu_seconds for run in found)
        memory = max(run.mebibytes for run in found)
        row = f"| {title} | {name} | {seconds:.2f} | {cpu:.2f} | {memory:.0f} |"
        if name in bars:
            times = ratio(runs, name)
            row += f" {times:.2f} | {bars[name]:g} | {'yes' if times <= bars[name] else 'no'} |"
        else:
            row += "  |  |  |"
        yield row


def growth(bench: Bench, most: int) -> list[Size]:
    """1, 2, 4 .. ``most`` hosts: medians of three runs each, after one that warms caches up."""
    bench.checked(bench.oeactl, bench.fleet.hosts[:1])
    sizes = []
    count = 1
    while count <= most:
        found = [bench.checked(bench.oeactl, bench.fleet.hosts[:count]) for _ in range(3)]
        seconds = statistics.median(run.seconds for run in found)
        sizes.append(Size(count, seconds, max(run.mebibytes for run in found)))
        count *= 2
    return sizes


STYLE = """
text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #5d6168; }
.title { font-weight: 600; } .grid { stroke: #8a8f98; stroke-opacity: .3; }
.way { fill: none; stroke: #0f6fb5; stroke-width: 2; } .mark { fill: #0f6fb5; }
"""


def picture(sizes: Sequence[Size]) -> str:
    """Seconds and MiB by hosts, side by side."""
    width, height, gap = 720.0, 260.0, 360.0
    drawn: list[Markup] = [el("style", Markup(STYLE))]
    for at, (title, values) in enumerate(
        (("seconds", [size.seconds for size in sizes]), ("MiB here", [size.mebibytes for size in sizes]))
    ):
        left, right, top, bottom = at * gap + 48, at * gap + gap - 16, 34.0, height - 40
        across = Scale(0, sizes[-1].hosts, left, right)
        up = Scale(*from_zero(values), bottom, top)
        places = [(across(size.hosts), up(value)) for size, value in zip(sizes, values, strict=True)]
        drawn += [
            text((left + right) / 2, 18, title, class_="title"),
            text((left + right) / 2, height - 6, "hosts"),
            *rows_of(up, left, right),
            *columns_of(across, top, bottom, count=4),
            el("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), class_="way"),
            *(mark(x, y, 0) for x, y in places),
        ]
    made = svg(width, height, "What oeactl takes from 1 host on", drawn)
    return made.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def report(bench: Bench, rounds: int, many: int, sizes: Sequence[Size]) -> tuple[list[str], bool]:
    one = compared(bench, bench.fleet.hosts[:1], ("oeactl", "ansible", "pyinfra"), rounds)
    several = compared(bench, bench.fleet.hosts[:many], ("oeactl", "pyinfra"), rounds)
    lines = [
        "| hosts | program | seconds | CPU here, s | MiB here | oeactl ÷ it | bar | held |",
        "|---|---|---|---|---|---|---|---|",
        *rows("1", one, {"ansible": ANSIBLE_BAR, "pyinfra": PYINFRA_BAR}),
        *rows(str(many), several, {"pyinfra": MANY_BAR}),
        "",
        "| hosts | oeactl, seconds | a host more, ms | MiB here |",
        "|---|---|---|---|",
    ]
    for size in sizes:
        more = size.hosts - 1
        each = f"{(size.seconds - sizes[0].seconds) / more * 1e3:.0f}" if more else ""
        lines.append(f"| {size.hosts} | {size.seconds:.2f} | {each} | {size.mebibytes:.0f} |")
    bars = (
        ratio(one, "ansible") <= ANSIBLE_BAR,
        ratio(one, "pyinfra") <= PYINFRA_BAR,
        ratio(several, "pyinfra") <= MANY_BAR,
    )
    return lines, all(bars)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--many", type=int, default=16)
    parser.add_argument("--most", type=int, default=64)
    parser.add_argument("--sshds", type=int, default=4)
    parser.add_argument("--write", type=Path, help="put the tables into this page, below its line of dashes")
    options = parser.parse_args()
    for name in PEERS:
        peer(name)
    with TemporaryDirectory() as place, ExitStack() as running:
        folder = Path(place)
        servers = []
        for number in range(options.sshds):
            (folder / f"ssh{number}").mkdir()
            sftp = ("Subsystem sftp internal-sftp",)  # what ansible sends its program by
            servers.append(running.enter_context(sshd.running(folder / f"ssh{number}", extra=sftp)))
        (folder / "peers").mkdir()
        fleet = make_fleet(folder / "project", servers, max(options.many, options.most))
        bench = Bench(fleet=fleet, servers=servers, folder=folder / "peers")
        sizes = growth(bench, options.most)
        lines, held = report(bench, options.rounds, options.many, sizes)
    cores = len(os.sched_getaffinity(0))
    load = f"{cores} cores, load {os.getloadavg()[0]:.1f}"
    lines += ["", f"{load}; {options.sshds} sshds; {', '.join(PEERS.values())}."]
    table = "\n".join(lines) + "\n"
    print(table)
    if options.write:
        head, line, _ = options.write.read_text().partition("\n---\n")
        options.write.write_text(f"{head}{line}\n{table}")
        options.write.with_suffix(".svg").write_text(picture(sizes))
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
