# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by tools/gpu-check and tools/gpu_check/first.sh: one function for each check. They run the program in $build on the GPU
# named $gpu, keep what it says in $work, and fill in the rows of table.sh.

value() { # value KEY FILE: of one line of a JSON object
  sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$2" 2>/dev/null | head -n 1
}
calculate() { awk "BEGIN { printf \"%.10g\", $1 }" 2>/dev/null; }
off_by() { [ -z "$1" ] || [ -z "$2" ] || calculate "($1 > $2 ? $1 - $2 : $2 - $1) / $2"; }
last_words() { grep -vE '^[[:space:]-]*$' "$1" | tail -n 1 | cut -c 1-300; }

# why CODE LOG: of a command of limited() that failed.
why() {
  case $1 in
    124 | 137) echo "out of time" ;;
    *) echo "exit code $1: $(last_words "$2")" ;;
  esac
}
# failed ROW CODE LOG: what did not end is not run, all else is missed.
failed() {
  case $2 in
    124 | 137) skipped "$1" "out of time" ;;
    *) broken "$1" "$(why "$2" "$3")" ;;
  esac
  echo "   $1: $(why "$2" "$3")" >&2
}

job_of() { # job_of MODEL: $job, its file and options
  local zoo=$root/models/zoo/$1.json
  job=("$root/scenarios/gpu-$1.json" --json)
  [ ! -f "$zoo" ] || job+=(--set "model=$zoo")
}
# trained LIMIT NAME MODEL OPTIONS...: its answer in $work/NAME.json, a line for each step in $work/NAME.steps. Weights
# are hashed where $hashes is true, and nowhere else: it takes seconds of a large model.
trained() {
  local limit=$1 name=$2 model=$3 job
  shift 3
  [ "${hashes:-}" = true ] || set -- --no-hash "$@"
  job_of "$model"
  rm -f "$work/$name.json" "$work/$name.steps"
  # shellcheck disable=SC2016
  limited "$limit" "$work/$name.log" bash -c 'out=$1; shift; exec "$@" >"$out"' - "$work/$name.json" \
    "$program" train "${job[@]}" --profile "$profile" --log-json "$work/$name.steps" "$@" "${overrides[@]}"
}

# Prints what a test program reported; CODE is how it ended.
tested() { # tested ROW CODE LOG
  local passed failed
  sed -i 's/\x1b\[[0-9;]*m//g; s/\r$//' "$3"  # mpirun's programs believe in a terminal
  passed=$(sed -n 's/^All tests passed (\(.*\))$/\1/p' "$3")
  failed=$(sed -n 's/^test cases: *\([0-9]*\) .*| *\([0-9]*\) failed.*/\2 of \1 cases failed/p' "$3")
  if [ -n "$passed" ] && [ "$2" -eq 0 ]; then
    says "$1" ok "$passed"
  elif [ -n "$failed" ]; then
    says "$1" missed "$failed"
    # The first as it is: after a kernel's fault every later one fails too.
    grep -m 1 -B 12 -A 6 -E 'FAILED' "$3" >&2
    grep -E 'FAILED' "$3" | uniq -c | head -n 20 >&2
  else
    failed "$1" "$2" "$3"
  fi
}

check_ops() {
  local log=$work/ops.log
  limited ops.kernels "$log" "$build/tests/cuda_gpu_tests" -d yes
  tested ops.kernels $? "$log"
  log=$work/training.log
  if ! command -v mpirun >/dev/null; then
    skipped ops.training "no mpirun"
  elif [ ! -x "$build/tests/cuda_gpu_training" ]; then
    skipped ops.training "built without MPI or NCCL"
  else
    limited ops.training "$log" "$root/tests/mpirun" 1 "$build/tests/cuda_gpu_training"
    tested ops.training $? "$log"
  fi
}

# Everything that trains needs a profile of this GPU.
check_calibrate() {
  local begin=$SECONDS code log=$work/calibrate.log
  [ "$calibrated" != true ] || { says calibrate ok "--profile"; return; } # of an earlier call
  limited calibrate "$log" "$program" calibrate --profile "$work/local.json"
  code=$?
  if [ "$code" -eq 0 ] && grep -q '"kind": "gpu"' "$work/local.json"; then
    use_profile "$work/local.json"
    found calibrate $((SECONDS - begin))
  elif [ "$code" -eq 0 ]; then
    broken calibrate "wrote no profile of a GPU"
  else
    failed calibrate "$code" "$log"
  fi
}

# Dense bf16 products, FLOP/s, from NVIDIA's data sheets.
peak_of() {
  case $1 in
    *H100*PCIe*) echo 756e12 ;;
    *H100*NVL*) echo 835e12 ;;
    *GH200* | *H100* | *H200*) echo 989e12 ;;
    *A100*) echo 312e12 ;;
  esac
}

# Libraries take hundreds of MB for any model, so for small models a share of it says nothing about the plan.
memory_floor=300000000
compare_memory() { # compare_memory ROW PLANNED MEASURED, bytes
  local off more
  off=$(off_by "$2" "$3") more="$(calculate "int($3 / 1048576)") MiB"
  if [ -n "$off" ] && [ "$(calculate "$off * $3 < $memory_floor")" = 1 ]; then
    says "$1" ok "$(four_digits "$off") ($more)"
  else
    found "$1" "$off" "$more"
  fi
}

# Figures of a training run NAME of MODEL against its prediction, in rows memory.ROW and predict.ROW.
compare_prediction() { # compare_prediction NAME ROW
  local answer=$work/$1.json
  if [ "$calibrated" != true ]; then
    skipped "memory.$2" "not calibrated"
    skipped "predict.$2" "not calibrated"
    return
  fi
  local planned measured
  planned=$(value predicted_peak_memory_bytes "$answer") measured=$(value measured_peak_memory_bytes "$answer")
  [ -z "${bar_of[memory.$2]:-}" ] || compare_memory "memory.$2" "$planned" "$measured"
  planned=$(value predicted_step_time_s "$answer") measured=$(value measured_step_time_s "$answer")
  found "predict.$2" "$(off_by "$planned" "$measured")" "$(calculate "int($measured * 1e5) / 100") ms"
}

# Trains MODEL once for speed, memory and prediction.
measured_once() { # measured_once MODEL
  [ -z "${measured[$1]:-}" ] || return "${measured[$1]}"
  trained "run.$1" "$1" "$1"
  measured[$1]=$?
  return "${measured[$1]}"
}

speed_of() { # speed_of MODEL
  local model=$1 row=speed.$1 log=$work/$1.log code job seconds
  measured_once "$model"
  code=$?
  if [ "$code" -ne 0 ]; then
    failed "$row" "$code" "$log"
    [ -z "${bar_of[$row.mfu]:-}" ] || failed "$row.mfu" "$code" "$log"
    return
  fi
  seconds=$(value measured_step_time_s "$work/$model.json")
  job_of "$model"
  # The job's work does not depend on the machine.
  rm -f "$work/$model.simulated"
  limited "simulate.$model" "$work/$model.simulated" "$program" simulate "${job[@]}" --profile "$profile" "${overrides[@]}"
  local step tokens flops peak
  step=$(value step_time_s "$work/$model.simulated")
  tokens=$(calculate "$(value tokens_per_s "$work/$model.simulated") * $step / $seconds")
  flops=$(calculate "$(value model_flops_per_s_per_gpu "$work/$model.simulated") * $step / $seconds")
  echo "   $model: $(calculate "int($tokens)") tokens/s, $(calculate "int($flops / 1e10) / 100") TFLOP/s"
  if [ -n "${bar_of[$row.mfu]:-}" ]; then
    peak=$(peak_of "$gpu")
    if [ -n "$peak" ]; then
      found "$row.mfu" "$(calculate "$flops / $peak")" "of $(calculate "$peak / 1e12") TFLOP/s"
    else
      skipped "$row.mfu" "peak of $gpu is not known"
    fi
  fi
  if [ -n "$no_torch" ]; then
    skipped "$row" "$no_torch"
    return
  fi
  local zoo=()
  [ ! -f "$root/models/zoo/$model.json" ] || zoo=(--set "model=$root/models/zoo/$model.json")
  rm -f "$work/$model.torch"
  limited "torch.$model" "$work/$model.torch" "${python[@]}" "$root/tools/gpu_check/pytorch.py" speed "${job[0]}" "${zoo[@]}" "${overrides[@]}"
  code=$?
  if [ "$code" -ne 0 ]; then
    skipped "$row" "PyTorch: $(why "$code" "$work/$model.torch")"
    return
  fi
  local theirs
  theirs=$(value tokens_per_s "$work/$model.torch")
  found "$row" "$(calculate "$tokens / $theirs")" "$(calculate "int($tokens)") / $(calculate "int($theirs)")"
}

check_speed() {
  local model
  for model in "${models[@]}"; do speed_of "$model"; done
}

check_memory() {
  local model code
  for model in "${models[@]}"; do
    measured_once "$model"
    code=$?
    if [ "$code" -eq 0 ]; then compare_prediction "$model" "$model"; else failed "memory.$model" "$code" "$work/$model.log"; fi
  done
}

check_predict() {
  local model recompute code
  for model in "${models[@]}"; do
    measured_once "$model"
    code=$?
    if [ "$code" -eq 0 ]; then compare_prediction "$model" "$model"; else failed "predict.$model" "$code" "$work/$model.log"; fi
  done
  # `selective` repeats attention with a score matrix in memory; fused attention has none.
  for recompute in selective full; do
    local options=(--set "training.recompute=$recompute" --set training.micro_batch=8 --set training.global_batch=8)
    [ "$recompute" = full ] || options+=(--set training.attention=unfused)
    trained "run.$recompute" "$recompute" gpt2 "${options[@]}"
    code=$?
    if [ "$code" -eq 0 ]; then
      compare_prediction "$recompute" "$recompute"
    else
      failed "predict.$recompute" "$code" "$work/$recompute.log"
    fi
  done
}

losses_of() { sed -n 's/.*"loss": *\([-+0-9.eE]*\).*/\1/p' "$1"; }
# The largest difference of two curves, as a share; nothing where they are not curves of the same length.
curve_difference() { # curve_difference FILE FILE
  paste <(losses_of "$1") <(losses_of "$2") | awk '
    NF != 2 { exit broken = 1 }
    { difference = $1 > $2 ? $1 - $2 : $2 - $1; share = difference / $2; if (share > most) most = share }
    END { if (!broken && NR > 0) printf "%.6g", most }'
}

check_curve() {
  local code log=$work/curve.log folder=$work/curve
  if [ -n "$no_torch" ]; then
    skipped curve "$no_torch"
    return
  fi
  local job options=(--set training.global_batch=8 --set training.micro_batch=8 --set training.steps=200
    --set training.learning_rate=3e-4 --set training.warmup_steps=20 --set training.weight_decay=0.1
    --set training.beta2=0.95 --set training.gradient_clip=1)
  local torch=("${python[@]}" "$root/tools/gpu_check/pytorch.py")
  job_of gpt2
  local model=("${job[@]:2}")
  local data=(--set "data.files=[\"$folder/tokens.bin\"]" --set data.format=uint16 --set "checkpoint.folder=$folder/run"
    --set checkpoint.every_steps=100000)
  limited curve.weights "$log" "${torch[@]}" weights "${job[0]}" "$folder" "${model[@]}" "${options[@]}" "${overrides[@]}" &&
    limited curve.import "$log" "$program" import "${job[@]}" "${options[@]}" "${data[@]}" --from "$folder" "${overrides[@]}" &&
    trained curve.run curve gpt2 --resume "${options[@]}" "${data[@]}" &&
    limited curve.torch "$log" bash -c 'out=$1; shift; exec "$@" >"$out"' - "$work/torch.steps" \
      "${torch[@]}" curve "${job[0]}" "$folder" "${model[@]}" "${options[@]}" "${overrides[@]}"
  code=$?
  rm -rf "$folder"
  if [ "$code" -ne 0 ]; then
    failed curve.gpt2 "$code" "$log"
    return
  fi
  found curve.gpt2 "$(curve_difference "$work/curve.steps" "$work/torch.steps")" \
    "ends at $(losses_of "$work/curve.steps" | tail -n 1)"
}

small=(--set training.global_batch=8 --set training.micro_batch=2 --set training.sequence_length=256
  --set training.steps=12 --set cluster.processes_per_host=2)
layout_of() {
  case $1 in
    pipeline) echo '{"pipeline": 2}' ;;
    tensor) echo '{"tensor": 2}' ;;
    data) echo '{"data": 2}' ;;
    shard) echo '{"data": 2, "zero_stage": 3}' ;;
  esac
}

check_ranks() {
  # This computer's own profile may have one GPU, and then takes one rank.
  local layout code name job profile=$profile_of_kind
  command -v mpirun >/dev/null || { skipped ranks "no mpirun"; return; }
  trained ranks.one one gpt2 "${small[@]}" --set cluster.processes_per_host=1
  code=$?
  [ "$code" -eq 0 ] || { skipped ranks "one rank: $(why "$code" "$work/one.log")"; return; }
  for layout in pipeline tensor data shard; do
    trained "ranks.mpi.$layout" "mpi.$layout" gpt2 "${small[@]}" --set "parallelism=$(layout_of $layout)"
    code=$?
    if [ "$code" -eq 0 ]; then
      found "ranks.mpi.$layout" "$(curve_difference "$work/mpi.$layout.steps" "$work/one.steps")"
    else
      failed "ranks.mpi.$layout" "$code" "$work/mpi.$layout.log"
    fi
  done
  # Ranks of one GPU: NCCL is made to believe that each has a host of its own (docs/gpu.md).
  job_of gpt2
  for layout in pipeline tensor data shard; do
    name=nccl.$layout
    # shellcheck disable=SC2016
    limited "ranks.$name" "$work/$name.log" env MESHWRIGHT_NCCL_SHARES_GPUS=1 NCCL_SOCKET_IFNAME=lo NCCL_MAX_NCHANNELS=1 \
      "$root/tests/mpirun" 2 sh -c 'export NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK; exec "$@"' - \
      "$program" train "${job[@]}" --profile "$profile" --no-hash --deadline 10 --log-json "$work/$name.steps" \
      "${small[@]}" --set "parallelism=$(layout_of $layout)" "${overrides[@]}"
    code=$?
    if [ "$code" -eq 0 ]; then
      found "ranks.nccl.$layout" "$(curve_difference "$work/$name.steps" "$work/one.steps")"
    else
      skipped "ranks.nccl.$layout" "NCCL: $(why "$code" "$work/$name.log")"
    fi
  done
}

check_determinism() {
  local run code hashes=true
  for run in once again; do
    trained "determinism.$run" "$run" gpt2 "${small[@]}" --set training.deterministic=true --set cluster.processes_per_host=1
    code=$?
    [ "$code" -eq 0 ] || { failed determinism "$code" "$work/$run.log"; return; }
  done
  local first second
  first=$(value parameters_sha256 "$work/once.json") second=$(value parameters_sha256 "$work/again.json")
  if [ -n "$first" ] && [ "$first" = "$second" ]; then
    says determinism ok "${first:0:12}"
  else
    says determinism missed "${first:0:12}, ${second:0:12}"
  fi
}

tool_at() { command -v "$1" || ls "/usr/local/cuda/bin/$1" 2>/dev/null; } # where a tool is
# each_alone AT_ONCE FOLDER SPECS COMMAND...: for each line of the file SPECS a process of its own, COMMAND with that line;
# FOLDER/codes: "number code" of each that ended.
# shellcheck disable=SC2016
each_alone='at_once=$1 folder=$2 specs=$3 number=0
shift 3
while IFS= read -r spec; do
  number=$((number + 1))
  { "$@" "$spec" >"$folder/$number.log" 2>&1; echo "$number $?" >>"$folder/codes"; } &
  [ $((number % at_once)) -ne 0 ] || wait
done <"$specs"
wait'
# list_cases LIMIT FILE: names of the operations' tests, of Catch2's version 2, else 3.
list_cases() {
  # shellcheck disable=SC2016
  limited "$1" "$2" bash -c 'names=$("$1" --list-test-names-only 2>/dev/null)
    case $names in "" | *"in input"*) "$1" --list-tests --verbosity quiet ;; *) printf "%s\n" "$names" ;; esac' - "$build/tests/cuda_gpu_tests"
}
specs_of() { sed 's/[],[\\"*]/\\&/g'; } # of names
new_folder() { rm -rf "$1" && mkdir "$1" && : >"$1/codes"; }
sanitizer_refuses() { # sanitizer_refuses LOGS...: why it checks nothing here
  grep -his -m 1 'device not supported\|failed to initialize' "$@" | head -n 1 | tr -s '= ' ' ' | cut -c 1-80
}
sanitized() { # sanitized ROW TOOL TESTS: the row's limit; the log is $work/ROW.log
  local row=$1 tool=$2 log=$work/$1.log code sanitizer summary refusal
  sanitizer=$(tool_at compute-sanitizer)
  [ -n "$sanitizer" ] || { skipped "$row" "no compute-sanitizer"; return; }
  limited "$row" "$log" "$sanitizer" --tool "$tool" --error-exitcode 99 "$build/tests/cuda_gpu_tests" "$3"
  code=$?
  summary=$(sed -n 's/^=* *\(ERROR\|RACECHECK\) SUMMARY: *//p' "$log" | tail -n 1)
  refusal=$(sanitizer_refuses "$log")
  if [ -n "$refusal" ]; then
    skipped "$row" "$refusal"
  elif [ "$code" -eq 0 ]; then
    says "$row" ok "${summary:-0 errors}"
  elif [ "$summary" = "0 errors" ] && grep -q '^test cases:' "$log"; then
    says "$row" ok "$summary; the tests fail" # at their ends: of memory there is nothing to say
  elif [ -n "$summary" ]; then
    says "$row" missed "$summary"
  else
    failed "$row" "$code" "$log"
  fi
}
# Races that racecheck reports in our kernels, and in those of libraries, whose barriers it does not know: "ours theirs".
count_races() { # count_races LOGS...
  awk '/Race reported between/ { if (/meshwright|fused/) ++ours; else ++theirs } END { print ours + 0, theirs + 0 }' "$@"
}
# Every case of the operations' tests by itself, all at once: each takes half a minute or more.
check_racecheck() {
  local sanitizer folder=$work/races cases ended refusal ours theirs
  sanitizer=$(tool_at compute-sanitizer)
  [ -n "$sanitizer" ] || { skipped sanitizer.racecheck "no compute-sanitizer"; return; }
  new_folder "$folder"
  list_cases racecheck.names "$folder/names"
  sed 's/^  //' "$folder/names" | grep . | specs_of >"$folder/specs"
  cases=$(wc -l <"$folder/specs")
  limited sanitizer.racecheck "$work/racecheck.log" bash -c "$each_alone" - "$((cases + 1))" "$folder" "$folder/specs" \
    "$sanitizer" --tool racecheck "$build/tests/cuda_gpu_tests"
  ended=$(wc -l <"$folder/codes")
  refusal=$(sanitizer_refuses "$folder"/*.log)
  [ "$ended" -gt 0 ] || refusal=${refusal:-out of time}
  [ -z "$refusal" ] || { skipped sanitizer.racecheck "$refusal"; return; }
  read -r ours theirs < <(count_races "$folder"/*.log)
  says sanitizer.racecheck "$([ "$ours" -eq 0 ] && echo ok || echo missed)" \
    "$ours in $ended of $cases cases; $((cases - ended)) not ended; $theirs in kernels of libraries"
}
small_tests='CUDA norms*,CUDA dropout*,CUDA slices*,CUDA positions*,CUDA clears*,CUDA attention agrees with*'
check_sanitizer() {
  sanitized sanitizer.memcheck memcheck "$small_tests"
  check_racecheck
}
