"""Checks that the entries of an archive stay in its folder and are bounded. Prints the violated rule."""

import resource
import stat
import sys
import tarfile
import zipfile

path, max_bytes, max_entries = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
# Headers are read into memory.
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


def refuse(rule):
    print(rule)
    sys.exit(1)


def parts(name):
    return [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]


def leads_out(name):
    return name.startswith(("/", "\\")) or name[1:2] == ":" or ".." in parts(name)


entries = total = 0
links = set()


def check(name, size):
    global entries, total
    entries += 1
    total += max(size, 0)
    if entries > max_entries:
        refuse(f"it has more than {max_entries} entries")
    if total > max_bytes:
        refuse(f"its entries have more than {max_bytes} bytes")
    if leads_out(name):
        refuse(f"its entry {name[:200]!r} leads out of its folder")
    above = parts(name)
    if links and any(tuple(above[:depth]) in links for depth in range(1, len(above))):
        refuse(f"its entry {name[:200]!r} leads through a link")


try:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                check(entry.filename, entry.file_size)
                if stat.S_ISLNK(entry.external_attr >> 16):
                    refuse(f"its entry {entry.filename[:200]!r} is a link")
    else:
        with tarfile.open(path, "r|*") as archive:
            for entry in archive:
                check(entry.name, entry.size)
                if entry.issym() or entry.islnk():
                    if leads_out(entry.linkname):
                        refuse(f"its entry {entry.name[:200]!r} is a link out of its folder")
                    links.add(tuple(parts(entry.name)))
                elif not (entry.isfile() or entry.isdir()):
                    refuse(f"its entry {entry.name[:200]!r} is not a file, a folder or a link")
except MemoryError:
    refuse("its headers take too much memory")
except (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile) as error:
    refuse(f"it cannot be read: {error}")
