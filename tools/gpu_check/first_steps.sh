# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by tools/gpu_check/first.sh: the steps that tools/gpu-check has not, and their rows of the table.

first_rows() {
  cat <<'TEXT'
device|the GPU: driver, clock and power at most|reported
libraries|CUDA, cuBLASLt, NCCL and tools that are here|none that is needed missing
ops.alone|the cases that failed, each alone|all pass
ops.memcheck|the first of them under compute-sanitizer memcheck|0 errors
levels.fused|GPT-2 124M at level fused, ms a step|reported
levels.full|GPT-2 124M, step at level full / at fused|<= 1.00
memory.level-full|GPT-2 124M at full, peak: planned / measured - 1|<= 0.02 or 300 MB
predict.level-full|GPT-2 124M at full, predicted / measured - 1|<= 0.07
attention.1024.forward|sequence 1024, heads of 64: PyTorch's s / ours|>= 0.80
attention.1024.backward|the same, backward|>= 0.80
attention.2048.forward|sequence 2048, heads of 128|>= 0.80
attention.2048.backward|the same, backward|>= 0.80
attention.4096.forward|sequence 4096, heads of 128|>= 0.80
attention.4096.backward|the same, backward|>= 0.80
attention.8192.forward|sequence 8192, heads of 128|>= 0.80
attention.8192.backward|the same, backward|>= 0.80
passes.fuse_loss|GPT-2 without the pass: its step / with it|reported
passes.rematerialize_rows|the same|reported
passes.fuse_rows|the same|>= 1.00
passes.order_operations|the same|reported
passes.reuse_in_place|the same|reported
passes.merge_products|Llama 1.1B, micro-batch 1, the same|>= 1.00
kernels|the three that take longest|reported
TEXT
}

# The rows of a phase, in the order in which they end.
rows_of_phase() {
  case $1 in
    A) echo device libraries ops.kernels ops.training ops.alone ops.memcheck calibrate levels.fused levels.full \
      memory.level-full predict.level-full ;;
    B)
      local model
      for model in "${models[@]}"; do
        echo "speed.$model"
        [ -z "${bar_of[speed.$model.mfu]:-}" ] || echo "speed.$model.mfu"
        echo "memory.$model predict.$model"
      done
      printf '%s\n' "${row_names[@]}" | grep -E '^(attention|passes)\.'
      echo kernels ;;
    C) printf '%s\n' curve.gpt2 determinism "${row_names[@]}" | grep -E '^(curve|determinism|ranks)' | awk '!seen[$0]++'
      echo sanitizer.racecheck ;;
  esac
}

check_device() {
  limited device "$work/nvidia-smi.log" nvidia-smi -q
  local code=$?
  [ "$code" -eq 0 ] || { failed device "$code" "$work/nvidia-smi.log"; return; }
  limited device.query "$work/device.log" nvidia-smi --query-gpu=driver_version,clocks.max.sm,power.limit --format=csv,noheader
  says device ok "$gpu: $(head -n 1 "$work/device.log")"
}

# Prints where a library is that the program would load; versions are in libraries.log.
check_libraries() {
  local log=$work/libraries.log missing='' found='' name tool
  limited libraries "$log" ldd "$program"
  { cat "$work/version.log" "$work/torch.log"; uname -a; ls -d /usr/local/cuda* /usr/local/cuda/version.json; } >>"$log" 2>&1
  limited libraries.torch "$log" "${python[@]}" -c 'import torch
print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version(), "NCCL", torch.cuda.nccl.version())'
  missing=$(sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' "$log" | sort -u | tr '\n' ' ')
  for name in cudart cublasLt nvrtc nccl cudnn; do
    found+=" $name $(sed -n "s/.*lib${name}[^ ]*\.so[^ ]* => \([^ ]*\).*/\1/p" "$log" | head -n 1 |
      xargs -r readlink -f | sed 's/.*\.so\.//' | grep . || echo -),"
  done
  for tool in mpirun compute-sanitizer ncu python3 xz; do
    [ -n "$(tool_at "$tool")" ] || found+=" no $tool,"
  done
  [ -z "$no_torch" ] || found+=" no PyTorch,"
  if [ -n "$missing" ]; then says libraries missed "not found: $missing"; else found=${found# }; says libraries ok "${found%,}"; fi
}

# The cases that failed, of a log with durations; LIST: the names of all. Where the program hung or ended, also the case
# that had a duration last, of which a section may be left, and the next.
failing_cases() { # failing_cases LOG LIST
  [ -s "$2" ] || return 0
  awk '
    function say(which) { if (!said[which]++) print which }
    NR == FNR { if (sub(/^  /, "") || $0 != "") name[++count] = $0; place[$0] = count; next }
    /FAILED/ { failing = 1 }
    /^test cases:/ { ended = 1 }
    match($0, /^[0-9.]+ s: /) {
      which = substr($0, RLENGTH + 1)
      if (!(which in place)) next
      if (failing) say(which)
      failing = 0
      last = place[which]
    }
    END {
      if (ended) exit
      if (last > 0) say(name[last])
      if (last < count) say(name[last + 1])
    }' "$2" "$1"
}
# Prints where tests of operations failed.
check_failures() {
  local names=() name failed ended verdict=missed folder=$work/alone list=$work/ops.names
  if [ "${verdict_of[ops.kernels]:-}" = ok ]; then
    skipped ops.alone "nothing failed"
    skipped ops.memcheck "nothing failed"
    return
  fi
  list_cases ops.names "$list"
  mapfile -t names < <(failing_cases "$work/ops.log" "$list")
  if [ "${#names[@]}" -eq 0 ]; then
    skipped ops.alone "which case failed is not known: see ops.log"
    skipped ops.memcheck "which case failed is not known: see ops.log"
    return
  fi
  new_folder "$folder"
  printf '%s\n' "${names[@]}" | specs_of >"$folder/specs"
  limited ops.alone "$work/ops.alone.log" bash -c "$each_alone" - 4 "$folder" "$folder/specs" "$build/tests/cuda_gpu_tests" -s
  while read -r name failed; do
    [ "$failed" -eq 0 ] || echo "   fails alone: ${names[name - 1]} ($folder/$name.log)"
  done <"$folder/codes"
  failed=$(awk '$2 != 0 { ++sum } END { print sum + 0 }' "$folder/codes") ended=$(wc -l <"$folder/codes")
  [ "$failed" -gt 0 ] || [ "$ended" -lt "${#names[@]}" ] || verdict=ok
  says ops.alone "$verdict" "$failed of ${#names[@]} fail alone$([ "$ended" -eq "${#names[@]}" ] || echo ", $((${#names[@]} - ended)) not ended")"
  what_of[ops.memcheck]=${names[0]}
  sanitized ops.memcheck memcheck "$(head -n 1 "$folder/specs")"
}

check_levels() {
  local level code
  for level in fused full; do
    trained "levels.$level" "level-$level" gpt2 --set "training.compiler=$level" --trace "$work/level-$level.trace.json"
    code=$?
    if [ "$code" -ne 0 ]; then
      failed "levels.$level" "$code" "$work/level-$level.log"
      [ "$level" = fused ] || skipped memory.level-full "no run"
      [ "$level" = fused ] || skipped predict.level-full "no run"
    elif [ "$level" = fused ]; then
      says levels.fused ok "$(milliseconds "$(step_of level-fused)")"
    else
      found levels.full "$(ratio "$(step_of level-full)" "$(step_of level-fused)")" "$(milliseconds "$(step_of level-full)")"
      compare_prediction level-full level-full
    fi
  done
}
step_of() { value measured_step_time_s "$work/$1.json"; } # step_of NAME
milliseconds() { echo "$(four_digits "$(calculate "$1 * 1e3")") ms"; }
ratio() { [ -z "$1" ] || [ -z "$2" ] || calculate "$1 / $2"; }

check_models() {
  local model code
  for model in "${models[@]}"; do
    speed_of "$model"
    measured_once "$model"
    code=$?
    if [ "$code" -eq 0 ]; then
      compare_prediction "$model" "$model"
    else
      failed "memory.$model" "$code" "$work/$model.log"
      failed "predict.$model" "$code" "$work/$model.log"
    fi
  done
}

# Ours were measured by `calibrate`.
check_attention() {
  local code name ours theirs whose rate log=$work/attention.log
  [ "$calibrated" = true ] || { skipped attention "not calibrated"; return; }
  command -v python3 >/dev/null || { skipped attention "no python3"; return; }
  limited attention "$log" "${python[@]}" "$root/tools/gpu_check/attention.py" "$profile" "$work/attention.txt"
  code=$?
  while read -r name ours theirs whose rate; do
    if [ "$theirs" = - ]; then
      skipped "attention.$name" "${no_torch:-PyTorch has no kernel for it}; ours: $rate TFLOP/s"
    else
      found "attention.$name" "$(ratio "$theirs" "$ours")" "$rate TFLOP/s, $whose $(four_digits "$(calculate "$rate * $ours / $theirs")")"
    fi
  done < <(cat "$work/attention.txt" 2>/dev/null)
  [ "$code" -eq 0 ] || skipped attention "$(why "$code" "$log")"
  skipped attention "calibrate had no time for this length"
}

# without PASS MODEL NAME OPTIONS...: the step beside that of the run NAME. Both at level full.
without() {
  local pass=$1 model=$2 with=$3 code run="without-$1"
  shift 3
  if [ -z "$(step_of "$with")" ]; then skipped "passes.$pass" "no run with it"; return; fi
  trained "passes.$pass" "$run" "$model" --set training.compiler=full --set "training.passes_off=[\"$pass\"]" "$@"
  code=$?
  if [ "$code" -ne 0 ]; then failed "passes.$pass" "$code" "$work/$run.log"; return; fi
  local figure more peak=measured_peak_memory_bytes
  figure=$(ratio "$(step_of "$run")" "$(step_of "$with")")
  more="$(milliseconds "$(step_of "$run")"), peak x $(four_digits "$(ratio "$(value $peak "$work/$run.json")" "$(value $peak "$work/$with.json")")")"
  if [[ ${bar_of[passes.$pass]} == ">="* ]]; then
    found "passes.$pass" "$figure" "$more"
  else
    says "passes.$pass" ok "$(four_digits "$figure") ($more)"
  fi
}
# Optional passes that change a dense model on one GPU in bf16. Of the others quantize is fp8's, overlap_tensor the tensor
# group's, and simplify, common_subexpressions and dead_code find nothing to do in these models.
check_passes() {
  local pass few=(--set training.steps=10)
  for pass in fuse_loss rematerialize_rows fuse_rows order_operations reuse_in_place; do
    without "$pass" gpt2 gpt2 "${few[@]}"
  done
  few+=(--set training.micro_batch=1 --set training.global_batch=1)
  trained passes.merge_products.with with-merge_products llama-1b --set training.compiler=full "${few[@]}"
  without merge_products llama-1b with-merge_products "${few[@]}"
}

# Kernels by their sum, of Nsight Compute's table of metrics: "ms share-of-the-compute-peak share-of-the-memory-peak name".
# Fused kernels have one name, and are told apart by their grids.
longest_kernels() { # longest_kernels FILE
  awk -F '","' '
    /^"ID"/ { for (i = 1; i <= NF; ++i) { gsub(/"/, "", $i); column[$i] = i } next }
    !("Metric Value" in column) || NF < column["Metric Value"] { next }
    {
      value = $column["Metric Value"]; gsub(/[",]/, "", value)
      name = $column["Kernel Name"]; if ("Grid Size" in column) name = name " " $column["Grid Size"]; metric = $column["Metric Name"]; id = $1
      kernel[id] = name
      if (metric ~ /^gpu__time_duration/) { ns[name] += value; own[id] = value }
      if (metric ~ /^sm__throughput/) sm[id] = value
      if (metric ~ /^gpu__dram_throughput|^dram__throughput/) dram[id] = value
    }
    END {
      for (id in kernel) { of_sm[kernel[id]] += sm[id] * own[id]; of_dram[kernel[id]] += dram[id] * own[id] }
      for (name in ns) if (ns[name] > 0)
        printf "%.4g ms, %.0f %% of compute, %.0f %% of memory: %s\n", ns[name] / 1e6, of_sm[name] / ns[name], of_dram[name] / ns[name], name
    }' "$1" | sort -rn | head -n 3
}
# The same of the traced step, by kind of instruction.
longest_kinds() { # longest_kinds FILE
  awk -F '"' '
    /"kind":/ { kind = $4 }
    /"measured_s":/ { split($0, part, ": "); seconds = part[2] + 0 }
    /}/ && kind != "" { printf "%.4g ms: %s\n", seconds * 1e3, kind; kind = "" }' "$1" | sort -rn | head -n 3
}
check_kernels() {
  local ncu code why='' log=$work/ncu.csv job few
  ncu=$(tool_at ncu)
  if [ -n "$ncu" ]; then
    # Our kernels of one step, which is not captured. A run before it makes the choices by timing, whose kernels would be most
    # of what is profiled. Every kernel is run several times, and what it may write is put back each time: a model of half
    # the layers, few rows.
    job_of distilgpt2
    job=("$root/scenarios/gpu-gpt2.json" "${job[@]:1}")
    few=(--set training.compiler=full --set training.steps=1 --set training.micro_batch=8 --set training.global_batch=8)
    limited kernels.choices "$work/kernels.log" "$program" train "${job[@]}" --profile "$profile" --no-hash "${few[@]}" "${overrides[@]}"
    limited kernels "$log" "$ncu" --csv --page details --print-units base --clock-control none --cache-control none \
      --kernel-name 'regex:fused|attention|norm|loss|entropy|embed|table|map|rows|sum|strip|span|squares|step' \
      --launch-count 100 --kill yes \
      --metrics gpu__time_duration.sum,sm__throughput.avg.pct_of_peak_sustained_elapsed,gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed \
      "$program" train "${job[@]}" --profile "$profile" --no-hash "${few[@]}" "${overrides[@]}"
    code=$?
    longest_kernels "$log" >"$work/kernels.txt"
    [ -s "$work/kernels.txt" ] || why="ncu: $(grep -m 1 ERR "$log" || why "$code" "$log") after $(grep -c 'PROF.* Profiling ' "$log") kernels; "
  else
    why="no ncu; "
  fi
  [ -s "$work/kernels.txt" ] || longest_kinds "$work/gpt2.json" >"$work/kernels.txt" 2>/dev/null
  if [ -s "$work/kernels.txt" ]; then
    sed 's/^/   /' "$work/kernels.txt"
    says kernels ok "$why$(paste -sd ';' "$work/kernels.txt" | cut -c 1-300)"
  else
    skipped kernels "${why}no traced step of GPT-2"
  fi
}

# Steps of a phase, in order: functions check_*.
steps_of_phase() {
  case $1 in
    A) echo device libraries ops failures calibrate levels ;;
    B) echo models attention passes kernels ;;
    C) echo curve determinism ranks racecheck ;;
  esac
}
