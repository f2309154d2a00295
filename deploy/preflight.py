"""Check this Python before an environment is made of it: `python3 deploy/preflight.py FOLDER`.

Written so that an old interpreter can read it and report that it is too old.
"""

import importlib.util
import sys

OLDEST = (3, 11)


def problem(version, modules):
    """Returns the message for this version and set of importable modules, or None when all is well."""
    found = ".".join(str(part) for part in version[:3])
    if tuple(version[:2]) < OLDEST:
        return (
            "Chordesk needs Python 3.11 or newer; this is " + found + " (" + sys.executable + ").\n"
            "Name a newer one: make PYTHON=python3.12 ..."
        )
    missing = [name for name in ("venv", "ensurepip") if name not in modules]
    if missing:
        return (
            "This Python (" + found + ", " + sys.executable + ") lacks " + " and ".join(missing) + ".\n"
            "On Debian and Ubuntu: sudo apt install python3-venv\n"
            "Or name another Python: make PYTHON=/path/to/python3 ..."
        )
    return None


def main():
    here = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name)]
    error = problem(sys.version_info, here)
    if error:
        sys.stderr.write(error + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
