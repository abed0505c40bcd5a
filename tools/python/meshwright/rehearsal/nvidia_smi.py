"""Answers as nvidia-smi does, for GPUs that are not there and hold nothing."""

import os
import sys

COUNT = int(os.environ.get("MESHWRIGHT_STAND_IN_COUNT", "1"))
NAME = "NVIDIA " + os.environ.get("MESHWRIGHT_STAND_IN_NAME", "GPU")
MIB = int(os.environ.get("MESHWRIGHT_STAND_IN_BYTES", str(80 << 30))) >> 20
DRIVER = "580.65.06"
CUDA = "13.0"
CAPABILITY = os.environ.get("MESHWRIGHT_STAND_IN_CAPABILITY", "90")

FIELDS = {
    "index": lambda number: str(number), "name": lambda number: NAME, "gpu_name": lambda number: NAME,
    "count": lambda number: str(COUNT), "uuid": lambda number: "GPU-00000000-0000-0000-0000-{:012d}".format(number + 1),
    "gpu_uuid": lambda number: "GPU-00000000-0000-0000-0000-{:012d}".format(number + 1),
    "pci.bus_id": lambda number: "00000000:{:02X}:00.0".format(number + 1), "driver_version": lambda number: DRIVER,
    "memory.total": lambda number: "{} MiB".format(MIB), "memory.free": lambda number: "{} MiB".format(MIB),
    "memory.used": lambda number: "0 MiB", "utilization.gpu": lambda number: "0 %",
    "utilization.memory": lambda number: "0 %", "temperature.gpu": lambda number: "30",
    "power.draw": lambda number: "70.00 W", "power.limit": lambda number: "700.00 W",
    "compute_cap": lambda number: "{}.{}".format(CAPABILITY[:-1], CAPABILITY[-1]),
    "compute_mode": lambda number: "Default", "pstate": lambda number: "P0", "mig.mode.current": lambda number: "Disabled",
    "persistence_mode": lambda number: "Enabled",
}


def option(words, *names):
    for at, word in enumerate(words):
        key, _, value = word.partition("=")
        if key in names:
            return value or (words[at + 1] if at + 1 < len(words) else "")
    return None


def chosen(words):
    only = option(words, "-i", "--id")
    return [int(each) for each in only.split(",") if each.isdigit() and int(each) < COUNT] if only else list(range(COUNT))


def query(words, fields):
    style = option(words, "--format") or "csv"
    unknown = [each for each in fields if each not in FIELDS]
    if unknown:
        print('Field "{}" is not a valid field to query.'.format(unknown[0]))
        return 2
    if "noheader" not in style:
        units = {"memory.total": " [MiB]", "memory.free": " [MiB]", "memory.used": " [MiB]", "utilization.gpu": " [%]",
                 "utilization.memory": " [%]", "power.draw": " [W]", "power.limit": " [W]"}
        print(", ".join(each + units.get(each, "") for each in fields))
    for number in chosen(words):
        row = [FIELDS[each](number) for each in fields]
        print(", ".join(each.split(" ")[0] if "nounits" in style and key not in ("name", "gpu_name") else each
                        for key, each in zip(fields, row)))
    return 0


def table():
    line = "+" + "-" * 78 + "+"
    print(line)
    print("| NVIDIA-SMI {0:<14} Driver Version: {0:<14} CUDA Version: {1:<13}|".format(DRIVER, CUDA))
    print(line)
    for number in range(COUNT):
        print("| {:>3}  {:<34} {} | {:>8}MiB / {:>6}MiB |".format(number, NAME[:34], FIELDS["pci.bus_id"](number), 0, MIB))
    print(line)
    print("| No running processes found{:<51}|".format(""))
    print(line)


def main(words):
    fields = option(words, "--query-gpu")
    if fields is not None:
        return query(words, fields.split(","))
    if option(words, "--query-compute-apps", "--query-accounted-apps") is not None:
        return 0
    if "-L" in words or "--list-gpus" in words:
        for number in range(COUNT):
            print("GPU {}: {} (UUID: {})".format(number, NAME, FIELDS["uuid"](number)))
        return 0
    if words[:1] == ["topo"]:
        print("\t" + "\t".join("GPU{}".format(each) for each in range(COUNT)))
        for row in range(COUNT):
            print("GPU{}\t".format(row) + "\t".join(" X " if row == each else "NV18" for each in range(COUNT)))
        return 0
    table()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
