"""accelerate's own reader and its launcher's argument parser take accelerate.yaml."""
from accelerate import __version__
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from report import read_each


def read(path):
    config = load_config_from_file(path)
    parser = launch_command_parser()
    # Without GPUs the launcher uses fewer processes than the file says, but it reads the file in
    # the same way.
    arguments = parser.parse_args(["--config_file", path, "train.py", "training_args.json"])
    arguments, _, _ = _validate_launch_command(arguments)
    count = 0
    for section in ("fsdp_config", "parallelism_config"):
        for key, value in getattr(config, section).items():
            taken = getattr(arguments, key)
            assert str(taken).lower() == str(value).lower(), f"{key}: {value} became {taken}"
            count += 1
    assert arguments.num_processes == config.num_processes
    assert arguments.num_machines == config.num_machines
    return f"{config.distributed_type}, {count} settings of its sections"


read_each(f"accelerate {__version__}", read)
