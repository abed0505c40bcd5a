# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by tools/gpu-check and tools/gpu_check/first.sh: the program of the folder $build and what it finds on this
# computer. $root: the source tree; $work: where logs go; $cache: compiled kernels and choices, for later calls too.

gpu_name() { timeout -k 2 5 nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1; }

# A packed build brings its libraries, but CUDA's: those of the toolkit, or those that come with PyTorch.
find_libraries() {
  python=(env "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}" python3) # which has libraries of its own
  [ -d "$build/lib" ] || return 0
  local libraries=$build/lib:/usr/local/cuda/lib64 folder
  for folder in $(timeout -k 2 4 "${python[@]}" 2>/dev/null -c 'import glob, sysconfig
print(*sorted(glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/*/lib")))'); do libraries+=:$folder; done
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  [ -d "$build/openmpi" ] || return 0
  # PMIx looks for its plugins where Debian has them, and this computer's may be of another version: the one that cannot be opened is left out.
  export OPAL_PREFIX=$build/openmpi PATH=$build/openmpi/bin:$PATH PMIX_MCA_pcompress=^zlib \
    PMIX_MCA_pcompress_base_silence_warning=1
}

# The known machine with such a GPU: where nothing was calibrated its profile serves, but predicts nothing.
kind_of() {
  case $1 in
    *H200*) echo dgx-h200 ;;
    *H100*) echo dgx-h100 ;;
    *) echo dgx-a100-80gb ;;
  esac
}

# start_program: what every check needs; fails where the program does not start, and says why in $cannot_start.
start_program() {
  program=$build/meshwright
  find_libraries
  export XDG_CACHE_HOME=$cache CUDA_DEVICE_MAX_CONNECTIONS=32 MESHWRIGHT_MACHINES=$root/hwprofiles/machines
  limited start.program "$work/version.log" "$program" --version
  local code=$?
  if [ "$code" -ne 0 ]; then
    cannot_start="the build does not start here: $(why "$code" "$work/version.log")"
    return 1
  fi
  no_torch=''
  limited start.torch "$work/torch.log" "${python[@]}" -c 'import torch, numpy
assert torch.cuda.is_available()' || no_torch="no PyTorch that has CUDA"
  profile_of_kind=$root/hwprofiles/machines/$(kind_of "$gpu").json
  profile=$profile_of_kind calibrated=false
}

is_profile_of_gpu() { grep -qs '"kind": "gpu"' "$1" && grep -q 'calibrated on this machine' "$1"; }
use_profile() { profile=$1 calibrated=true; } # one that `calibrate` wrote for this GPU
