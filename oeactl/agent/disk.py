"""Files as this host keeps them: written whole or not at all, with what belongs to them.

Owns: reading with a hash, durable writes, replacing by rename, an OSError's explanation and its remedy.
Refuses: to edit in place, and to know why a file changes.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import time
from contextlib import contextmanager, suppress

from .loader import sha256 as _sha256
from .steps import reach
from .wire import AgentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND_NS = 1_000_000_000

#: Stands for the hash of a file that is not there.
ABSENT = ""

#: A file system that cannot link; the backup serves instead.
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def sha256(data: bytes) -> str:
    return _sha256(data).hexdigest()


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def hash_of(path: str) -> str | None:
    """sha256 of what ``path`` holds now; None when there is no such file."""
    try:
        return sha256(read(path))
    except FileNotFoundError:
        return None


def state_of(path: str) -> str:
    """sha256 of what ``path`` holds now, ABSENT when there is no such file."""
    return hash_of(path) or ABSENT


def sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new(path: str, data: bytes, mode: int = 0o600, *, sync: bool = True) -> None:
    """Create ``path`` (it must not exist) and put ``data`` on the disk for good.

    sync: False where the caller does that, once the file's attributes are right too.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(handle)


def prepare(path: str, data: bytes) -> None:
    """Write what ``install`` puts in the place of ``path``, mode 0600. All that needs space happens here."""
    temporary = path + ".new"
    remove(temporary)
    try:
        write_new(temporary, data)
    except BaseException:
        remove(temporary)
        raise


def install(path: str) -> None:
    """Make the prepared content the content of ``path``, for good."""
    os.rename(path + ".new", path)
    sync_directory(os.path.dirname(path))


def write_durably(path: str, data: bytes) -> None:
    """Replace ``path`` atomically: after a crash it holds the old or the new content."""
    prepare(path, data)
    install(path)


def remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def successor(path: str, temporary: str, data: bytes, mode: int, uid: int, gid: int) -> None:
    """Write beside ``path`` the file that shall take its place: owner, mode, attributes, a later mtime.

    The mtime is at least a second past the old one, or a cached .pyc of the old code would still match.
    """
    reach("write temporary", temporary)
    write_new(temporary, data, sync=False)
    new = os.stat(temporary)
    if (new.st_uid, new.st_gid) != (uid, gid):
        os.chown(temporary, uid, gid)
    later = time.time_ns()
    if os.path.exists(path):
        _copy_attributes(path, temporary)
        later = max(later, os.stat(path).st_mtime_ns + SECOND_NS)
    os.chmod(temporary, mode)
    os.utime(temporary, ns=(later, later))
    reach("sync temporary", temporary)
    handle = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy_attributes(source: str, target: str) -> None:
    """ACLs, SELinux label, user attributes. One that is there already need not be set."""
    try:
        names = os.listxattr(source)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return
        raise
    for name in names:
        if name.startswith("trusted."):  # the file system's own, overlayfs for one
            continue
        value = os.getxattr(source, name)
        try:
            same = os.getxattr(target, name) == value
        except OSError:
            same = False
        if not same:
            os.setxattr(target, name, value)


def swap(path: str, temporary: str | None, saved: str, expected: str) -> None:
    """Put ``temporary`` in the place of ``path``, which must still hold ``expected``; keep that as ``saved``.

    temporary None: take it away. expected ABSENT: nothing may be there. saved is the very same inode: putting
    it back needs no space on a full disk and loses nothing.
    """
    if expected != ABSENT:
        reach("save original", path)
        try:
            os.link(path, saved)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
    reach("check source", path)
    if os.path.islink(path) or state_of(path) != expected:
        raise _changed(path)
    reach("rename", path)
    if temporary is None:
        os.unlink(path)
    else:
        os.rename(temporary, path)
    if expected != ABSENT and hash_of(saved) not in (None, expected):
        os.rename(saved, path)  # somebody wrote to it between the look and the rename: theirs stays
        raise _changed(path)
    reach("sync directory", path)
    sync_directory(os.path.dirname(path))


def _changed(path: str) -> AgentError:
    hint = "see who changed it, then run the command again"
    return AgentError("refused", "it was changed while we worked", path, hint)


def new_folders(path: str) -> list[str]:
    """The folders above ``path`` that do not exist, the outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def make_folders(folders: list[str], uid: int, gid: int) -> None:
    """Make what ``new_folders`` named, each for its owner and readable to all."""
    for folder in folders:
        reach("make folder", folder)
        with suppress(FileExistsError):
            os.mkdir(folder, 0o755)
            if os.geteuid() == 0:
                os.chown(folder, uid, gid)
            sync_directory(os.path.dirname(folder))


def drop_folders(folders: list[str]) -> None:
    """Remove what ``make_folders`` made, unless something else lies there by now."""
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(os.path.join(folder, "__pycache__"))
        with suppress(OSError):
            os.rmdir(folder)


def drop_bytecode(path: str, prefix: str | None = None) -> None:
    """Delete every compiled form of a module: unchecked hash-based ones would stay stale for ever."""
    if not path.endswith(".py"):
        return
    folder, name = os.path.split(path)
    stem = name[: -len("py")]
    places = [os.path.join(folder, "__pycache__")]
    if prefix:
        places.append(os.path.join(prefix, folder.lstrip("/")))
    compiled = [os.path.join(place, one) for place in places for one in _bytecode_in(place, stem)]
    if os.path.lexists(os.path.join(folder, stem + "pyc")):
        compiled.append(os.path.join(folder, stem + "pyc"))
    for one in compiled:
        reach("drop bytecode", one)
        remove(one)


def _bytecode_in(folder: str, stem: str) -> list[str]:
    """Names of the compiled forms of one module in a cache folder. stem: its file's name, up to the dot."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [name for name in names if name.startswith(stem) and name.endswith(".pyc")]


def obstacle(path: str) -> tuple[str, str] | None:
    """Why ``path`` could not be replaced by us, and the remedy; None if nothing is in the way. Only looks."""
    facts = os.lstat(path)
    folder = os.path.dirname(path)
    other_user = "connect as the owner, or set become: sudo in hosts.yaml"
    if not stat.S_ISREG(facts.st_mode):
        return "it is not a regular file", "see what lies there"
    if os.geteuid() not in (0, facts.st_uid):
        return f"it belongs to {user_name(facts.st_uid)}, and only the owner may patch", other_user
    if not facts.st_mode & stat.S_IWUSR:
        return "it is read-only", "chmod u+w it, if it may be changed"
    if not os.access(path, os.W_OK):
        return (
            "it cannot be written",
            "the file system may be mounted read-only: patch the copy the server runs",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"its folder {folder} cannot be written", other_user
    return None


def no_room(path: str) -> str | None:
    """Why we could not put a file where none is; None if nothing is in the way. Only looks."""
    folder = os.path.dirname((new_folders(path) or [path])[0])
    if not os.path.isdir(folder):
        return f"{folder} is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"its folder {folder} cannot be written"
    return None


def iso(seconds: float) -> str:
    """A time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def home_of(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None


REMEDIES = {
    errno.ENOSPC: "free some space there (df -h), then run the command again",
    errno.EDQUOT: "the quota is used up: free some space, then run the command again",
    errno.EROFS: "the file system is read-only: remount it, or patch the copy that the server runs",
    errno.EACCES: "connect as the owner, or set become: sudo in hosts.yaml",
    errno.EPERM: "connect as the owner, set become: sudo, or clear the immutable flag (lsattr, chattr -i)",
    errno.EBUSY: "it is a mount of its own (a bind mount): patch its source instead",
}


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn an OSError about ``path`` into a refusal with its remedy."""
    try:
        yield
    except OSError as error:
        what = f"{error.strerror or error} (errno {errno.errorcode.get(error.errno or 0, error.errno)})"
        raise AgentError("refused", what, error.filename or path, REMEDIES.get(error.errno or 0)) from None
