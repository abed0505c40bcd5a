# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by tools/gpu-check and tools/gpu_check/first.sh: the longest that each command of theirs may take.

# Command (each runs once at most), seconds, the checks of tools/gpu-check that run it, the phases of first.sh that do.
gpu_check_limits() {
  cat <<'TEXT'
start.look|10|every|A B C
start.program|10|every|A B C
start.torch|20|every|A B C
device|10||A
device.query|5||A
libraries|5||A
libraries.torch|10||A
ops.kernels|120|ops|A
ops.training|50|ops|A
ops.names|5||A
ops.alone|20||A
ops.memcheck|50||A
calibrate|100|calibrate|A
levels.fused|60||A
levels.full|60||A
run.gpt2|40|speed memory predict|B
run.gpt2-xl|50|speed memory predict|B
run.llama-1b|50|speed memory predict|B
simulate.gpt2|5|speed|B
simulate.gpt2-xl|5|speed|B
simulate.llama-1b|5|speed|B
torch.gpt2|50|speed|B
torch.gpt2-xl|50|speed|B
torch.llama-1b|50|speed|B
run.selective|20|predict|
run.full|20|predict|
attention|45||B
passes.fuse_loss|15||B
passes.rematerialize_rows|15||B
passes.fuse_rows|15||B
passes.order_operations|15||B
passes.reuse_in_place|15||B
passes.merge_products|25||B
passes.merge_products.with|25||B
kernels|45||B
curve.weights|25|curve|C
curve.import|15|curve|C
curve.run|30|curve|C
curve.torch|35|curve|C
ranks.one|15|ranks|C
ranks.mpi.pipeline|15|ranks|C
ranks.mpi.tensor|15|ranks|C
ranks.mpi.data|15|ranks|C
ranks.mpi.shard|15|ranks|C
ranks.nccl.pipeline|15|ranks|C
ranks.nccl.tensor|15|ranks|C
ranks.nccl.data|15|ranks|C
ranks.nccl.shard|15|ranks|C
determinism.once|20|determinism|C
determinism.again|20|determinism|C
sanitizer.memcheck|40|sanitizer|
sanitizer.racecheck|40|sanitizer|C
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
