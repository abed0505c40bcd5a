# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by tools/gpu-check and tools/gpu_check/first.sh: the longest that each command of theirs may take.

# About twice what each took on an H200.
# Command (each runs once at most), seconds, the checks of tools/gpu-check that run it, the phases of first.sh that do.
gpu_check_limits() {
  cat <<'TEXT'
start.look|9|every|A B C
start.program|4|every|A B C
start.torch|12|every|A B C
device|4||A
device.query|4||A
libraries|4||A
libraries.torch|8||A
ops.kernels|60|ops|A
ops.training|12|ops|A
ops.names|4||A
ops.alone|12||A
ops.memcheck|12||A
calibrate|50|calibrate|A
levels.fused|12||A
levels.full|12||A
run.gpt2|14|speed memory predict|B
run.gpt2-xl|40|speed memory predict|B
run.llama-1b|30|speed memory predict|B
simulate.gpt2|3|speed|B
simulate.gpt2-xl|3|speed|B
simulate.llama-1b|3|speed|B
torch.gpt2|50|speed|B
torch.gpt2-xl|45|speed|B
torch.llama-1b|45|speed|B
run.selective|14|predict|
run.full|14|predict|
attention|22||B
passes.fuse_loss|10||B
passes.rematerialize_rows|10||B
passes.fuse_rows|10||B
passes.order_operations|10||B
passes.reuse_in_place|10||B
passes.merge_products|20||B
passes.merge_products.with|20||B
kernels.choices|10||B
kernels|30||B
curve.weights|25|curve|C
curve.import|10|curve|C
curve.run|20|curve|C
curve.torch|30|curve|C
ranks.one|10|ranks|C
ranks.mpi.pipeline|16|ranks|C
ranks.mpi.tensor|16|ranks|C
ranks.mpi.data|16|ranks|C
ranks.mpi.shard|16|ranks|C
ranks.nccl.pipeline|25|ranks|C
ranks.nccl.tensor|25|ranks|C
ranks.nccl.data|25|ranks|C
ranks.nccl.shard|25|ranks|C
determinism.once|10|determinism|C
determinism.again|10|determinism|C
sanitizer.memcheck|25|sanitizer|
sanitizer.racecheck|65|sanitizer|C
racecheck.names|4|sanitizer|C
TEXT
}

declare -A limit_of=() checks_of=() phases_of=()
limited_names=()
while IFS='|' read -r name seconds checks phases; do
  limited_names+=("$name") limit_of[$name]=$seconds checks_of[$name]=$checks phases_of[$name]=$phases
done < <(gpu_check_limits)

# Seconds of all commands of these checks, each once, with what runs before every check.
limit_of_checks() { # limit_of_checks CHECKS...
  local name check sum=0
  for name in "${limited_names[@]}"; do
    for check in every "$@"; do
      [[ " ${checks_of[$name]} " == *" $check "* ]] || continue
      sum=$((sum + limit_of[$name]))
      break
    done
  done
  echo "$sum"
}
limited_in_phase() { # limited_in_phase PHASE: the names
  local name
  for name in "${limited_names[@]}"; do
    [[ " ${phases_of[$name]} " != *" $1 "* ]] || echo "$name"
  done
}

# within SECONDS LOG COMMAND...: within its own limit and what is left for all until $ends; 124: there was no time.
# In the background, so that a signal is heard at once; $running is the process then.
running=''
within() {
  local seconds=$1 log=$2 left=$((ends - SECONDS - 2)) code
  shift 2
  [ "$left" -gt 1 ] || return 124
  [ "$seconds" -lt "$left" ] || seconds=$left
  timeout -k 2 "$seconds" "$@" >>"$log" 2>&1 </dev/null &
  running=$!
  wait "$running"
  code=$?
  running=''
  return "$code"
}
limited() { # limited NAME LOG COMMAND...: of the table
  [ -n "${limit_of[$1]:-}" ] || { echo "no limit for $1" >>"$2"; return 2; }
  within "${limit_of[$1]}" "${@:2}"
}
