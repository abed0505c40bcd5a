"""Makes stand-ins for the CUDA libraries that the installed PyTorch asks for and this computer lacks.

PyTorch's package for Linux is linked with CUDA, and does not load without these libraries, although
a computer without a GPU calls none of them. A stand-in has the symbols and no code.
"""

import os
import re
import subprocess
import sysconfig

packages = sysconfig.get_paths()["purelib"]
own = os.path.join(packages, "torch", "lib")
folder = os.path.join(packages, "cuda_stand_ins")


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def libraries():
    return sorted(os.path.join(own, name) for name in os.listdir(own) if ".so" in name)


def missing():
    """The names of libraries that the loader does not find."""
    found = {}
    for library in libraries():
        for line in lines("ldd", library):
            if "not found" in line and "=>" in line:
                found[line.split()[0]] = True
    return [name for name in found if not os.path.exists(os.path.join(own, name))]


def versions_wanted():
    """For each library, the versions of symbols that PyTorch asks it for."""
    wanted, source = {}, None
    for library in libraries():
        for line in lines("objdump", "-p", library):
            match = re.match(r"\s+required from (\S+):", line)
            if match:
                source = match.group(1)
            elif source and re.match(r"\s+0x", line):
                wanted.setdefault(source, set()).add(line.split()[-1])
            else:
                source = None
    return wanted


def symbols(option):
    """(name, version) of the symbols of PyTorch's libraries: undefined ones, or those that are defined."""
    found = set()
    for library in libraries():
        for line in lines("nm", "-D", option, library):
            name, _, version = line.split()[-1].partition("@")
            found.add((name, version.strip("@")))
    return found


def write(name, functions, versions):
    source, script = os.path.join(folder, "stand_in.c"), os.path.join(folder, "stand_in.map")
    with open(source, "w") as file:
        file.writelines("long {}[64];\n".format(function) for function in sorted(functions))
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname," + name, "-o", os.path.join(folder, name), source]
    if versions:
        with open(script, "w") as file:
            file.writelines("{} {{ global: *; }};\n".format(version) for version in sorted(versions))
        command.append("-Wl,--version-script=" + script)
    subprocess.run(command, check=True)


def main():
    absent = missing()
    if not absent:
        return
    os.makedirs(folder, exist_ok=True)
    wanted = versions_wanted()
    defined = {name for name, _ in symbols("--defined-only")}
    undefined = [(name, version) for name, version in symbols("--undefined-only") if name not in defined]
    prefixes = ("cu", "nv", "nccl", "__cuda")
    for number, name in enumerate(absent):
        versions = wanted.get(name, set())
        functions = {function for function, version in undefined if version in versions}
        if number == 0:  # the loader does not ask where it finds what has no version
            functions |= {function for function, version in undefined
                          if not version and function.startswith(prefixes)}
        write(name, functions, versions)
    with open(os.path.join(packages, "cuda_stand_ins.pth"), "w") as file:
        file.write("import ctypes; list(map(lambda path, load=ctypes.CDLL, mode=ctypes.RTLD_GLOBAL: "
                   "load(path, mode), {!r}))\n".format([os.path.join(folder, name) for name in absent]))


if __name__ == "__main__":
    main()
