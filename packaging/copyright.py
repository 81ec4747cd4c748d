# SPDX-License-Identifier: GPL-2.0-only
"""Writes a package's copyright file, and the licences of the crates that its binary consists of.

    python3 packaging/copyright.py FOLDER

Writes FOLDER/copyright in Debian's machine-readable form, and FOLDER/licences.gz with the crates' own texts.
"""

import gzip
import json
import pathlib
import re
import subprocess
import sys

FORMAT = "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"


def crates() -> list[dict]:
    """The crates that the command is built from, ours left out, by name and version."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--features", "paceline/static"]
    data = json.loads(subprocess.run([*command, "--filter-platform", target()], check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    first = next(id for id, package in packages.items() if package["name"] == "paceline" and package["source"] is None)
    found, rest = set(), [first]
    while rest:
        node = nodes[rest.pop()]
        for dependency in node["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if None in kinds and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                rest.append(dependency["pkg"])
    foreign = [packages[id] for id in found if packages[id]["source"] is not None]
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def target() -> str:
    """This machine, as Rust names it."""
    said = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return re.search(r"^host: (.*)$", said, re.MULTILINE).group(1)


def texts(package: dict) -> list[str]:
    """The licences and notices that a crate brings along."""
    folder = pathlib.Path(package["manifest_path"]).parent
    names = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
    files = sorted(file for file in folder.iterdir() if file.is_file() and names.match(file.name))
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    foreign = crates()
    paragraphs = [
        f"Format: {FORMAT}\nUpstream-Name: paceline",
        "Files: *\nCopyright: the Paceline developers\nLicense: GPL-2.0-only",
        "License: GPL-2.0-only\n On Debian systems the text of this licence is in /usr/share/common-licenses/GPL-2.",
        "Comment:\n The program contains libelf (GPL-2.0-or-later or LGPL-3.0-or-later), zlib (Zlib) and libbpf\n"
        " (LGPL-2.1-only or BSD-2-Clause), whose sources have their texts, and these Rust crates, whose texts are in\n"
        " licences.gz.\n"
        + "\n".join(f"  {crate['name']} {crate['version']}: {crate['license'] or 'see its text'}" for crate in foreign),
    ]
    (folder / "copyright").write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")
    # Many crates share a text, word for word.
    users: dict[str, list[str]] = {}
    for crate in foreign:
        for text in texts(crate):
            users.setdefault(text, []).append(f"{crate['name']} {crate['version']}")
    whole = "".join(f"{', '.join(names)}:\n\n{text}\n\n{'-' * 80}\n\n" for text, names in users.items())
    with open(folder / "licences.gz", "wb") as file:
        file.write(gzip.compress(whole.encode(), mtime=0))


if __name__ == "__main__":
    main()
