# Is sourced by tools/soak. It stops and kills runs over two hosts (hosts.sh) at random times: a
# third of them within the first second of the program, and a third at or after one of the last
# steps. It prints a table, and $failures counts what went wrong.

make_hosts || skip "no link: $(tail -n 1 err)"
over_two_hosts
make_agent agent
[ "$patience_s" -gt 0 ] || deadline=8  # else that of runs.sh, which is kept on a busy computer
two_layouts=(data pipeline tensor zero3)
kinds=(TERM INT TWICE launcher rank0 rank1 daemon host link blink)
moments=(first middle last)
declare -A whole=() met=() longest=()

arguments_of() { # arguments_of LAYOUT FOLDER: $arguments of a run
  arguments=(--json --set "training.steps=$steps" --set "parallelism=${parallelism[$1]}"
    --set "checkpoint={\"folder\": \"$2\", \"every_steps\": $every}")
}
# Succeeds when the program, after the commands that move it into its namespace, handles or blocks
# SIGTERM.
listens() {
  is_gone "$launcher" && return 0
  [ "$(cat "/proc/$launcher/comm" 2>/dev/null)" = meshwright ] || return 1
  local caught blocked
  caught=$(sed -n 's/^SigCgt:\t//p' "/proc/$launcher/status" 2>/dev/null)
  blocked=$(sed -n 's/^SigBlk:\t//p' "/proc/$launcher/status" 2>/dev/null)
  [ $(((0x${caught:-0} | 0x${blocked:-0}) & 0x4000)) -ne 0 ]
}
has_made() { is_gone "$launcher" || grep -qsE "^ *$1 +[0-9.]+ .*e-0" err; }
ends_within() { # ends_within SECONDS
  timeout "$1" tail --pid="$launcher" -s 0.02 -f /dev/null
  is_gone "$launcher"
}
run_folder() { # what mpirun and the ranks of this run keep in memory
  local process
  for process in $(pgrep -P "$launcher" -x mpirun); do
    tr '\0' '\n' <"/proc/$process/cmdline" | grep -m 1 '/meshwright-'
  done
}
is_no_folder() { [ ! -e "$1" ]; }
nobody_is_left() { no_ranks && [ -z "$(pgrep -f -- "--host $a,$b ")" ]; }

disturb() { # disturb KIND
  local process
  case "$1" in
    TERM | INT) kill -"$1" "$launcher" ;;
    TWICE) kill -TERM "$launcher"; pick 1000; sleep "0.$(printf %03d "$picked")"; kill -TERM "$launcher" ;;
    launcher) kill -9 "$launcher" ;;
    rank0 | rank1) for process in $(rank_process "${1#rank}"); do kill -9 "$process"; done ;;
    daemon) for process in $(daemon_of "$space_b"); do kill -9 "$process"; done ;;
    host) for process in $(ip netns pids "$space_b"); do kill -9 "$process"; done ;;
    link) link down ;;
    blink) link down; sleep 0.3; link up ;;
  esac
} 2>/dev/null

# Succeeds if the exit code is as docs/running.md says: 0 if the run was done, 5 if it was asked to
# stop, and 4 after any other fault.
is_good_code() { # is_good_code KIND CODE
  case "$1 $2" in
    'TERM 5' | 'INT 5' | 'TWICE 5' | 'launcher 137') return 0 ;;
    *' 0') grep -q '"stopped": false' out ;;
    'TERM '* | 'INT '* | 'TWICE '* | 'launcher '*) return 1 ;;
    *' 4') return 0 ;;
    *) return 1 ;;
  esac
}
for layout in "${two_layouts[@]}"; do
  arguments_of "$layout" "whole-$layout"
  on_hosts "${arguments[@]}" || wrong "$layout, undisturbed: $(cat err)"
  whole[$layout]=$(value parameters_sha256)
done

disturb_once() { # disturb_once NUMBER KIND MOMENT LAYOUT
  local what="stop $1 ($2, $3, $4)" code began waited folder kind=$2
  arguments_of "$4" stopped
  rm -rf stopped
  launch "${arguments[@]}" --deadline "$deadline"
  until listens; do sleep 0.01; done
  pick 1000
  case "$3" in
    first) ;;
    middle) pick $((steps - 4)); until has_made $((picked + 1)); do sleep 0.02; done; pick 300 ;;
    last) pick 3; until has_made $((steps - picked)); do sleep 0.01; done; pick 1000 ;;
  esac
  sleep "$(printf '0.%03d' "$picked")"
  is_gone "$launcher" && kind=late  # done, or failed by itself on a busy computer
  folder=$(run_folder)
  disturb "$2"
  began=$(now)
  ends_within $((patience_s + deadline + 15)) || { wrong "$what: waits for more than $deadline + 15 s: $(cat err)"; kill -9 "$launcher"; }
  wait "$launcher"
  code=$?
  waited=$(seconds "$(now) - $began")
  longest[$2]=$(awk "BEGIN { print ($waited > ${longest[$2]:-0} ? $waited : ${longest[$2]:-0}) }")
  is_good_code "$kind" "$code" || wrong "$what: exit code $code: $(cat err)"
  met["$2 $3"]=$((${met["$2 $3"]:-0} + 1))
  met["$2 code $code"]=$((${met["$2 code $code"]:-0} + 1))
  link up
  end_what_is_left
  until_true 600 nobody_is_left || wrong "$what: processes are left: $(ranks | tr '\n' ' ')"
  [ -z "$folder" ] || until_true 600 is_no_folder "$folder" || wrong "$what: $folder is left"
  on_hosts "${arguments[@]}" --resume || wrong "$what: --resume: $(cat err)"
  same "$what: the parameters" "${whole[$4]}" "$(value parameters_sha256)"
}

for number in $(seq "$stops"); do
  progress "stop $number of $stops"
  pick "${#kinds[@]}"
  kind=${kinds[picked]}
  pick "${#two_layouts[@]}"
  before=$failures
  disturb_once "$number" "$kind" "${moments[number % 3]}" "${two_layouts[picked]}"
  met["$kind wrong"]=$((${met["$kind wrong"]:-0} + failures - before))
done

[ -t 2 ] && echo >&2
echo "what was disturbed, when (first second, middle, last steps and second), the exit codes, the longest wait, what went wrong"
row='%-9s %6s %7s %5s %7s %5s %5s %9s %10s %6s\n'
printf "$row" what first middle last 'code 0' 4 5 137 'longest s' wrong
for kind in "${kinds[@]}"; do
  cells=()
  for cell in first middle last 'code 0' 'code 4' 'code 5' 'code 137'; do cells+=("${met["$kind $cell"]:-0}"); done
  printf "$row" "$kind" "${cells[@]}" "${longest[$kind]:-0}" "${met["$kind wrong"]:-0}"
done
printf '%d stops, %d wrong; seed %d, deadline %d s, %d s\n' "$stops" "$failures" "$seed" "$deadline" "$SECONDS"
