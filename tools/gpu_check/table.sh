# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by tools/gpu-check, tools/gpu_check/first.sh and their tests: the checks, what they found, and the table.

# One row each: check, what is compared, bar.
gpu_check_rows() {
  cat <<'TEXT'
ops.kernels|every operation beside the CPU in double|bf16 <= 1e-2, fp32 <= 1e-5
ops.training|small models train as on the CPU|fp32 <= 1e-5, 16 bits <= 1e-2
calibrate|profile of this GPU, seconds|<= 90
speed.gpt2|GPT-2 124M, tokens/s beside torch.compile|>= 1.10
speed.gpt2.mfu|GPT-2 124M, model-FLOP utilisation|>= 0.50
speed.gpt2-xl|GPT-2 XL, tokens/s beside torch.compile|>= 1.05
speed.gpt2-xl.mfu|GPT-2 XL, model-FLOP utilisation|>= 0.55
speed.llama-1b|Llama 1.1B at 4096, tokens/s beside torch.compile|>= 1.05
memory.gpt2|GPT-2 124M, peak memory: planned / measured - 1|<= 0.02 or 300 MB
memory.gpt2-xl|GPT-2 XL, peak memory: planned / measured - 1|<= 0.02 or 300 MB
memory.llama-1b|Llama 1.1B, peak memory: planned / measured - 1|<= 0.02 or 300 MB
predict.gpt2|GPT-2 124M, step time: predicted / measured - 1|<= 0.07
predict.gpt2-xl|GPT-2 XL, step time: predicted / measured - 1|<= 0.07
predict.llama-1b|Llama 1.1B, step time: predicted / measured - 1|<= 0.07
predict.selective|GPT-2 124M, recompute selective, step time|<= 0.07
predict.full|GPT-2 124M, recompute full, step time|<= 0.07
curve.gpt2|GPT-2 124M, 200 steps, loss beside PyTorch's|<= 0.005
ranks.mpi.pipeline|pipeline 2 through MPI, loss beside one rank's|<= 0.01
ranks.mpi.tensor|tensor 2 through MPI, loss beside one rank's|<= 0.01
ranks.mpi.data|data 2 through MPI, loss beside one rank's|<= 0.01
ranks.mpi.shard|shard 2 through MPI, loss beside one rank's|<= 0.01
ranks.nccl.pipeline|pipeline 2 through NCCL, loss beside one rank's|<= 0.01
ranks.nccl.tensor|tensor 2 through NCCL, loss beside one rank's|<= 0.01
ranks.nccl.data|data 2 through NCCL, loss beside one rank's|<= 0.01
ranks.nccl.shard|shard 2 through NCCL, loss beside one rank's|<= 0.01
determinism|the same job twice, parameters_sha256|equal
sanitizer.memcheck|compute-sanitizer memcheck, small tests|0 errors
sanitizer.racecheck|compute-sanitizer racecheck, tests of operations|0 errors
TEXT
}

declare -A bar_of=() what_of=() figure_of=() verdict_of=() why_not=() seconds_of=()
row_names=()
add_rows() { # add_rows: lines as above, of standard input
  local name what bar
  while IFS='|' read -r name what bar; do
    row_names+=("$name") bar_of[$name]=$bar what_of[$name]=$what
  done
}
add_rows < <(gpu_check_rows)

check_names() { printf '%s\n' "${row_names[@]%%.*}" | uniq; }

# judge VALUE BAR: "ok" or "missed". BAR: "<= X" or ">= X"; what follows is the caller's. What is no number misses every bar.
judge() {
  awk -v value="$1" -v bar="$2" 'BEGIN {
    split(bar, part, " ")
    is_number = value ~ /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/
    holds = part[1] == "<=" ? value + 0 <= part[2] + 0 : value + 0 >= part[2] + 0
    print is_number && holds ? "ok" : "missed" }'
}

row_ended() { :; } # row_ended ROW: it has its verdict, or why there is none; for who wants to know

four_digits() { awk -v v="$1" 'BEGIN { printf "%.4g", v }'; }
# found ROW VALUE [MORE]: a number beside the row's bar; MORE is shown with it.
found() {
  local shown=$2
  [ -n "$2" ] || { broken "$1" "no figure"; return; }
  [[ $2 =~ ^[-+.0-9eE]+$ ]] && shown=$(four_digits "$2")
  figure_of[$1]="$shown${3:+ ($3)}" verdict_of[$1]=$(judge "$2" "${bar_of[$1]}")
  row_ended "$1"
}
# says ROW VERDICT FIGURE: where the bar is no number.
says() { verdict_of[$1]=$2 figure_of[$1]=$3; row_ended "$1"; }
# broken ROW WHY: it ran, and has no figure.
broken() { verdict_of[$1]=missed why_not[$1]=$2; row_ended "$1"; }
# skipped PREFIX WHY: the rows of a check, or one row, that have no verdict yet.
skipped() {
  local name
  for name in "${row_names[@]}"; do
    [[ $name == "$1" || $name == "$1".* ]] && [ -z "${verdict_of[$name]:-}" ] || continue
    [ -z "${why_not[$name]:-}" ] || continue
    why_not[$name]=$2
    row_ended "$name"
  done
}

verdict() { # verdict ROW
  if [ -n "${verdict_of[$1]:-}" ]; then
    echo "${verdict_of[$1]}${why_not[$1]:+: ${why_not[$1]}}"
  else
    echo "not run: ${why_not[$1]:-no word of it}"
  fi
}

print_table() { # print_table ROWS...
  local name
  printf '\n%-20s %-50s %-30s %-30s %s\n' check "" figure bar verdict
  for name in "$@"; do
    printf '%-20s %-50s %-30s %-30s %s\n' "$name" "${what_of[$name]}" "${figure_of[$name]:--}" \
      "${bar_of[$name]}" "$(verdict "$name")"
  done
}

print_table_json() { # print_table_json DEVICE ROWS...
  local name between='' device=$1
  quoted() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/[[:cntrl:]]/ /g' <<<"$1"; }
  shift
  printf '{\n  "device": "%s",\n  "checks": [' "$(quoted "$device")"
  for name in "$@"; do
    printf '%s\n    {"check": "%s", "what": "%s", "figure": "%s", "bar": "%s", "verdict": "%s"%s}' "$between" \
      "$name" "$(quoted "${what_of[$name]}")" "$(quoted "${figure_of[$name]:-}")" "$(quoted "${bar_of[$name]}")" \
      "$(quoted "$(verdict "$name")")" "${seconds_of[$name]:+, \"seconds\": ${seconds_of[$name]:-}}"
    between=,
  done
  printf '\n  ]\n}\n'
}

any_missed() { # any_missed ROWS...
  local name
  for name in "$@"; do
    [ "${verdict_of[$name]:-}" != missed ] || return 0
  done
  return 1
}
