#include "sim/collectives/rounds.h"

namespace meshwright::sim {

namespace {

int shifted(const Round& round, int first, int repetition) {
  const int moved = first + repetition * round.shift;
  if (round.window == 0) return moved;
  const int rest = moved % round.window;
  return rest < 0 ? rest + round.window : rest;
}

bool idle(const Rounds& rounds, int first) { return first < 0 || first >= rounds.chunks; }

std::vector<std::int64_t> chunks_moved(const Rounds& rounds, int Transfer::*end) {
  std::vector<std::int64_t> moved(rounds.ranks);
  for (const Round& round : rounds.rounds)
    for (const Transfer& transfer : round.transfers)
      for (int i = 0; i < round.repeat; ++i)
        if (!idle(rounds, shifted(round, transfer.first, i)))
          moved[transfer.*end] += transfer.count;
  return moved;
}

}  // namespace

Buffers interpret(const Rounds& rounds, Buffers buffers) {
  for (const Round& round : rounds.rounds)
    for (int i = 0; i < round.repeat; ++i) {
      const Buffers before = buffers;
      for (const Transfer& transfer : round.transfers) {
        const int first = shifted(round, transfer.first, i);
        if (idle(rounds, first)) continue;
        const int into = transfer.into < 0 ? first : transfer.into;
        for (int c = 0; c < transfer.count; ++c) {
          const std::int64_t sent = before[transfer.from][first + c * transfer.stride];
          std::int64_t& target = buffers[transfer.to][into + c * transfer.stride];
          target = transfer.combine == Combine::Reduce ? target + sent : sent;
        }
      }
    }
  return buffers;
}

std::vector<std::int64_t> chunks_sent(const Rounds& rounds) {
  return chunks_moved(rounds, &Transfer::from);
}

std::vector<std::int64_t> chunks_received(const Rounds& rounds) {
  return chunks_moved(rounds, &Transfer::to);
}

}  // namespace meshwright::sim
