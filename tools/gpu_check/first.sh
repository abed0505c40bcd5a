#!/usr/bin/env bash
# The first quarter of an hour on a GPU, in three calls: see usage() and docs/gpu.md.
# shellcheck disable=SC2034,SC2154,SC2317 # shared with what is sourced; handlers of traps
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)

usage() {
  cat <<'TEXT'
usage: tools/gpu_check/first.sh PHASE --build FOLDER [--out FOLDER] [--cache FOLDER] [--profile FILE]
                                [--set KEY=VALUE]... [--dry-run] [--help]

  A   device, libraries, operations, calibration, GPT-2 at two compiler levels, with traces  (3.7 minutes at most)
  B   three models beside PyTorch, attention beside PyTorch's, compiler passes on and off,
      the longest kernels                                                                 (6.9 minutes at most)
  C   a loss curve beside PyTorch's, the same run twice, two ranks over MPI and NCCL,
      races                                                                                 (6.3 minutes at most)
Each step prints a line when it ends; the table comes last, and is kept in FOLDER/PHASE.json after every step.
  --build FOLDER   an unpacked tools/gpu_check/pack, or a build folder: nothing is built here
  --out FOLDER     where everything goes that is written ($OUT)
  --cache FOLDER   compiled kernels, choices made by timing, and A's profile, for B and C (/tmp/meshwright-first)
  --profile FILE   A's profile.json, where B and C run elsewhere
  --set KEY=VALUE  overrides a key of every job, to try this script on something small
  --dry-run        prints the commands and their limits, and runs nothing
Exit codes: 0 nothing missed its bar · 1 something did · 2 bad options · 3 the phase was interrupted.
TEXT
}
refuse() {
  usage >&2
  echo "tools/gpu_check/first.sh: $1" >&2
  exit 2
}

for part in table limits start checks first_steps; do
  # shellcheck source=/dev/null
  . "$root/tools/gpu_check/$part.sh"
done
add_rows < <(first_rows)
models=(gpt2 gpt2-xl llama-1b)
phase='' build='' out=${OUT:-} cache=${TMPDIR:-/tmp}/meshwright-first given_profile='' dry=false overrides=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    A | B | C)
      [ -z "$phase" ] || refuse "name one phase"
      phase=$1; shift; continue ;;
    --dry-run) dry=true; shift; continue ;;
    --build | --out | --cache | --profile | --set) ;;
    *) refuse "unknown option or phase '$1'; --help lists them" ;;
  esac
  [ $# -ge 2 ] || refuse "$1 needs a value"
  case "$1" in
    --build)
      [ -x "$2/meshwright" ] || refuse "--build: $2/meshwright is not there"
      build=$(cd "$2" && pwd) ;;
    --out) out=$2 ;;
    --cache) cache=$2 ;;
    --profile)
      is_profile_of_gpu "$2" || refuse "--profile: $2 is no profile of a GPU that 'calibrate' wrote"
      given_profile=$(cd "$(dirname "$2")" && pwd)/$(basename "$2") ;;
    --set) overrides+=(--set "$2") ;;
  esac
  shift 2
done
[ -n "$phase" ] || refuse "name a phase: A, B or C"
declare -A seconds_of_phase=([A]=222 [B]=412 [C]=378)
mapfile -t limited_here < <(limited_in_phase "$phase")

if [ "$dry" = true ]; then
  sum=0
  for name in "${limited_here[@]}"; do
    printf '%-28s %4d s\n' "$name" "${limit_of[$name]}"
    sum=$((sum + limit_of[$name]))
  done
  echo "phase $phase: $sum s of ${seconds_of_phase[$phase]} s"
  [ "$sum" -le "${seconds_of_phase[$phase]}" ] || exit 1
  exit 0
fi
[ -n "$build" ] || refuse "--build: name an unpacked tools/gpu_check/pack, or a build folder"
[ -n "$out" ] || refuse "--out: name a folder, or set OUT"
mkdir -p "$out" "$cache" 2>/dev/null || refuse "$out or $cache cannot be made"
# The usual folder has a name that anybody can foresee, and what is in it is run.
[ -O "$cache" ] || refuse "--cache: $cache belongs to somebody else; name another folder"
work=$(cd "$out" && pwd) cache=$(cd "$cache" && pwd)
ends=$((SECONDS + seconds_of_phase[$phase]))
mapfile -t rows < <(rows_of_phase "$phase" | tr ' ' '\n')

keep() { print_table_json "$gpu" "${rows[@]}" >"$work/$phase.json.part" && mv "$work/$phase.json.part" "$work/$phase.json"; }
last_end=$SECONDS
row_ended() {
  [[ " ${rows[*]} " == *" $1 "* ]] || return 0
  seconds_of[$1]=$((SECONDS - last_end)) last_end=$SECONDS
  printf '%-26s %4d s  %s%s\n' "$1" "${seconds_of[$1]}" "${figure_of[$1]:+${figure_of[$1]}  }" "$(verdict "$1")"
  keep
}
end() { # end CODE
  trap '' INT TERM HUP
  print_table "${rows[@]}" | tee "$work/$phase.table"
  keep
  exit "$1"
}
interrupted() {
  trap '' INT TERM HUP
  [ -z "$running" ] || kill "$running" 2>/dev/null
  local name
  for name in "${rows[@]}"; do [ -n "${verdict_of[$name]:-}" ] || why_not[$name]=${why_not[$name]:-interrupted}; done
  end 3
}
trap interrupted INT TERM HUP
none() { # none WHY: no step is run
  local name
  for name in "${rows[@]}"; do skipped "$name" "$1"; done
}

gpu=$(gpu_name)
if [ -z "$gpu" ]; then
  none "no GPU"
  end 0
fi
if ! start_program; then
  none "$cannot_start"
  end 1
fi
if [ -n "$given_profile" ]; then
  use_profile "$given_profile"
elif [ "$phase" != A ] && is_profile_of_gpu "$cache/profile.json"; then
  use_profile "$cache/profile.json"
fi
echo "phase $phase on $gpu: at most ${seconds_of_phase[$phase]} s; profile: $profile"
declare -A measured=()
for step in $(steps_of_phase "$phase"); do
  "check_$step"
  [ "$step" != calibrate ] || [ "$calibrated" != true ] || cp "$profile" "$work/profile.json"
  [ "$step" != calibrate ] || [ "$calibrated" != true ] || cp "$profile" "$cache/profile.json"
done
none "out of time"
any_missed "${rows[@]}" && end 1
end 0
