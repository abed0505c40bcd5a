# Is sourced, after common.sh, by the tests of tools/gpu-check and tools/gpu_check/first.sh. It
# makes a stand-in for a GPU, which is only a name, and a build whose programs print what the test
# wants.

# gpu makes nvidia-smi name this GPU, or none, whatever this computer has.
mkdir bin
export PATH=$PWD/bin:$PATH
gpu() { # gpu [NAME]
  printf '#!/bin/sh\n%s\n' "${1:+echo '$1'}${1:-exit 9}" | sed "s/^echo '\(.*\)'.*/echo '\1'/" >bin/nvidia-smi
  chmod +x bin/nvidia-smi
}

# This stand-in for the program does what the checks use. A step takes the time that made/seconds
# says.
mkdir -p build/tests made
cat >build/meshwright <<'TEXT'
#!/usr/bin/env bash
echo "$*" >>"$MADE/calls"
command=$1
loss=9.5
while [ $# -gt 0 ]; do
  case "$1" in
    --profile) profile=$2 ;;
    --log-json) log=$2 ;;
    *'"pipeline": 2'*) loss=${NCCL_HOSTID:+nan} ;;
    *'"tensor": 2'*) loss=9.7 ;;
    *zero_stage*) [ -z "${NCCL_HOSTID:-}" ] || { echo "Duplicate GPU"; exit 4; } ;;
  esac
  shift
done
case $command in
  --version) echo "meshwright, as made up" ;;
  calibrate) printf '  "kind": "gpu",\n  "calibration": "calibrated on this machine"\n' >"$profile" ;;
  simulate) printf '{\n  "model_flops_per_s_per_gpu": 400e12,\n  "step_time_s": 0.1,\n  "tokens_per_s": 1000\n}\n' ;;
  train)
    [ ! -e "$MADE/fails" ] || { echo "rank 0 failed: out of luck" >&2; exit 4; }
    printf '{"step": 1, "loss": 10.0}\n{"step": 2, "loss": %s}\n' "${loss:-9.51}" >"$log"
    printf '{\n  "predicted_step_time_s": 0.1,\n  "measured_step_time_s": %s,\n' "$(cat "$MADE/seconds")"
    printf '  "predicted_peak_memory_bytes": 1000000000,\n  "measured_peak_memory_bytes": %s,\n' \
      "$(cat "$MADE/bytes" 2>/dev/null || echo 1010000000)"
    printf '  "kinds": [\n    {\n      "kind": "slow",\n      "measured_s": 0.03,\n      "predicted_s": 0.02\n    },\n'
    printf '    {\n      "kind": "fast",\n      "measured_s": 0.004,\n      "predicted_s": 0.02\n    }\n  ],\n'
    printf '  "parameters_sha256": "%s"\n}\n' "$(cat "$MADE/sha" 2>/dev/null || date +%N)"
    ;;
esac
TEXT
printf '#!/bin/sh\necho "All tests passed (99 assertions in 9 test cases)"\n' >build/tests/cuda_gpu_tests
# This stand-in for Python has PyTorch if made/torch is there, and prints fixed results.
cat >bin/python3 <<'TEXT'
#!/usr/bin/env bash
[ -e "$MADE/torch" ] || exit 1
case "$*" in
  *"pytorch.py speed"*) printf '{\n  "tokens_per_s": 1000\n}\n' ;;
  *"pytorch.py curve"*) printf '{"step": 1, "loss": 10.0}\n{"step": 2, "loss": 9.5}\n' ;;
  *attention.py*) printf '1024.forward 1e-3 9e-4 flash 400\n1024.backward 1e-3 7e-4 cudnn 300\n2048.forward 1e-3 - - 400\n' >"${@: -1}" ;;
esac
TEXT
printf '#!/bin/sh\nprintf "\\033[1;32mAll tests passed\\033[0m (7 assertions in 2 test cases)\\r\\n"\n' >build/tests/cuda_gpu_training
cat >bin/mpirun <<'TEXT'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do
  case $1 in -n | --bind-to) shift ;; esac
  shift
done
exec "$@"
TEXT
# This stand-in for timeout notes each time limit.
cat >bin/timeout <<'TEXT'
#!/bin/sh
echo "$3" >>"$MADE/limits"
shift 3
exec "$@"
TEXT
all_limits() { awk '{ sum += $1 } END { print sum + 0 }' made/limits; }
chmod +x build/meshwright build/tests/* bin/*
export MADE=$PWD/made
echo 0.08 >made/seconds
echo abcdef >made/sha
