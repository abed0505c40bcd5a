#include "models/compiler/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "models/core/error.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

// Returns the tasks as "F0 F1 B0 ...": F forward, B backward, W weight gradients, then the
// micro-batch. A task of chunk c > 0 ends in 'c.
std::string text(const StageOrder& order) {
  std::string line;
  for (const ScheduledTask& task : order) {
    if (!line.empty()) line += ' ';
    line += "FBW"[static_cast<int>(task.kind)] + std::to_string(task.micro_batch_index);
    if (task.chunk > 0) line += '\'' + std::to_string(task.chunk);
  }
  return line;
}

struct InFlight {
  int pairs = 0;          // the most pairs of chunk and micro-batch in flight at once
  int micro_batches = 0;  // the most micro-batches in flight at once
  bool legal = true;      // each pair has one forward, then one backward, in one task or in two
};

InFlight walk(const StageOrder& order, PipelineShape shape, bool splits) {
  std::set<std::pair<int, int>> seen, live, half;
  std::map<int, int> begun, ended;  // number of forwards and of backwards, by micro-batch
  InFlight result;
  int micro_batches = 0;
  for (const ScheduledTask& task : order) {
    const std::pair pair{task.chunk, task.micro_batch_index};
    if (splits && task.kind == TaskKind::backward) {
      result.legal = result.legal && live.contains(pair) && half.insert(pair).second;
    } else if (task.kind != TaskKind::forward) {
      result.legal = result.legal && live.erase(pair) == 1 && (!splits || half.erase(pair) == 1);
      if (++ended[task.micro_batch_index] == shape.chunks) --micro_batches;
    } else {
      result.legal = result.legal && seen.insert(pair).second && live.insert(pair).second;
      if (begun[task.micro_batch_index]++ == 0) ++micro_batches;
    }
    result.pairs = std::max(result.pairs, static_cast<int>(live.size()));
    result.micro_batches = std::max(result.micro_batches, micro_batches);
  }
  const auto wanted = static_cast<std::size_t>(shape.chunks * shape.micro_batches);
  result.legal = result.legal && live.empty() && seen.size() == wanted;
  return result;
}

// Returns the most pairs of chunk and micro-batch at one time whose forward has run and whose
// backward has not.
int most_forwarded(const StageOrder& order) {
  int pairs = 0, most = 0;
  for (const ScheduledTask& task : order) {
    if (task.kind == TaskKind::forward) ++pairs;
    if (task.kind == TaskKind::backward) --pairs;
    most = std::max(most, pairs);
  }
  return most;
}

// Returns how often a stage has no micro-batch in flight after a task.
int times_drained(const StageOrder& order, bool splits) {
  int pairs = 0, times = 0;
  for (const ScheduledTask& task : order) {
    if (task.kind == TaskKind::forward) ++pairs;
    if (task.kind == (splits ? TaskKind::weights : TaskKind::backward) && --pairs == 0) ++times;
  }
  return times;
}

struct Times {
  int forward = 1, backward = 1;  // times of the tasks of one chunk
  int weights = 0;                // time of a task for weight gradients, if there are such tasks
  int of(TaskKind kind) const {
    return kind == TaskKind::forward ? forward : kind == TaskKind::backward ? backward : weights;
  }
};

// Runs the tasks of all stages in the order of each stage. Messages take no time. A task waits for
// the same micro-batch on the virtual stage before it (forward) or after it (backward).
class Pipe {
 public:
  Pipe(const ScheduleInfo& info, PipelineShape shape)
      : shape_(shape), layout_{shape.stages, shape.chunks, info.stage_shape} {
    for (int stage = 0; stage < shape.stages; ++stage) orders_.push_back(info.order(shape, stage));
    next_.assign(orders_.size(), 0);
    clock_.assign(orders_.size(), 0);
  }

  int makespan(Times times) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < shape_.stages; ++stage)
        while (step(stage, times)) moved = true;
    }
    for (std::size_t stage = 0; stage < orders_.size(); ++stage)
      if (next_[stage] != orders_[stage].size()) return -1;
    return *std::max_element(clock_.begin(), clock_.end());
  }

 private:
  bool step(int stage, Times times) {
    const auto s = static_cast<std::size_t>(stage);
    if (next_[s] == orders_[s].size()) return false;
    const ScheduledTask& task = orders_[s][next_[s]];
    const int virtual_stage = layout_.virtual_stage(stage, task.chunk);
    const bool forward = task.kind == TaskKind::forward;
    const int before = forward ? virtual_stage - 1 : virtual_stage + 1;
    int ready = 0;
    if (task.kind != TaskKind::weights && before >= 0 && before < layout_.virtual_stages()) {
      const auto done = done_.find({task.kind, before, task.micro_batch_index});
      if (done == done_.end()) return false;
      ready = done->second;
    }
    clock_[s] = std::max(clock_[s], ready) + times.of(task.kind);
    done_[{task.kind, virtual_stage, task.micro_batch_index}] = clock_[s];
    ++next_[s];
    return true;
  }

  PipelineShape shape_;
  StageLayout layout_;
  std::vector<StageOrder> orders_;
  std::vector<std::size_t> next_;
  std::vector<int> clock_;
  std::map<std::tuple<TaskKind, int, int>, int> done_;
};

int makespan(ScheduleKind kind, PipelineShape shape, Times times) {
  return Pipe(schedule_info(kind), shape).makespan(times);
}

bool legal(const ScheduleInfo& info, PipelineShape shape) {
  if (shape.chunks > info.most_chunks && info.kind != ScheduleKind::gpipe) return false;
  if (shape.chunks < info.least_chunks && shape.stages > 1) return false;
  return !info.in_groups || shape.micro_batches % shape.stages == 0;
}

std::string name(const ScheduleInfo& info, PipelineShape shape) {
  return std::string(info.name) + " p=" + std::to_string(shape.stages) +
         " chunks=" + std::to_string(shape.chunks) + " m=" + std::to_string(shape.micro_batches) +
         " active=" + std::to_string(shape.active_microbatches);
}

// Returns how many pairs of chunk and micro-batch may have live activations at one time on a stage:
// all that are allowed in flight, unless the schedule promises fewer.
int most_alive(ScheduleKind kind, PipelineShape shape, int stage) {
  const int below = shape.stages - stage - 1, active = shape.active_microbatches;
  const int allowed = active > 0 ? std::min(active, shape.micro_batches) : shape.micro_batches;
  const int all = shape.chunks * allowed;
  switch (kind) {
    case ScheduleKind::one_f_one_b:
      // Micro-batches that are allowed beyond the number of stages use the idle slots before the
      // first backward arrives.
      return std::min({2 * below + 1, below + 1 + std::max(0, active - shape.stages), all});
    case ScheduleKind::zero_bubble:
      return std::min(shape.stages, all);
    case ScheduleKind::zero_bubble_v:
      return std::min(2 * shape.stages, all);
    case ScheduleKind::dualpipe_v:
      return std::min(2 * shape.stages + 1, all);
    case ScheduleKind::interleaved_zero_bubble:
      if (active > 0) return all;
      return std::min(2 * below + (shape.chunks - 1) * shape.stages + 1 + stage, all);
    case ScheduleKind::interleaved:
      // With a bound that is too tight for its order, the schedule runs micro-batches in rounds.
      if (active > 0) return all;
      return std::min(2 * below + (shape.chunks - 1) * shape.stages + 1, all);
    default:
      return all;
  }
}

// Runs `check` on every legal combination.
template <class Check>
void for_every_schedule(Check check) {
  for (const ScheduleInfo& info : schedule_kinds())
    for (int stages = 1; stages <= 8; ++stages)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (int micro_batches : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 21, 24})
          for (int active : {0, 1, 2, 3, 4, 6, 10, 16, 40}) {
            const PipelineShape shape{stages, chunks, micro_batches, active};
            if (legal(info, shape)) check(info, shape);
          }
}

}  // namespace

TEST_CASE("every schedule forwards and backwards each micro-batch once, within its bound",
          "[models][schedule]") {
  for_every_schedule([](const ScheduleInfo& info, PipelineShape shape) {
    INFO(name(info, shape));
    for (int stage = 0; stage < shape.stages; ++stage) {
      const StageOrder order = info.order(shape, stage);
      const InFlight most = walk(order, shape, info.splits_backwards);
      if (!most.legal || most.pairs > most_alive(info.kind, shape, stage)) {
        INFO("stage " << stage << ": " << text(order));
        CHECK(most.legal);
        CHECK(most.pairs <= most_alive(info.kind, shape, stage));
      }
      if (shape.active_microbatches > 0 && most.micro_batches > shape.active_microbatches)
        CHECK(most.micro_batches <= shape.active_microbatches);
    }
  });
}

TEST_CASE("the in-flight count of a schedule's row agrees with its order of tasks",
          "[models][schedule]") {
  for_every_schedule([](const ScheduleInfo& info, PipelineShape shape) {
    INFO(name(info, shape));
    const bool simple = shape.active_microbatches == 0 && info.most_chunks == 1;
    for (int stage = 0; stage < shape.stages; ++stage) {
      const int held = most_forwarded(info.order(shape, stage));
      const int told = shape.chunks * info.in_flight(shape, stage);
      if (held < told || (simple && !info.splits_backwards && held != told)) {
        INFO("stage " << stage);
        CHECK(held == told);
      }
    }
    if (!simple || shape.stages == 1) return;
    const int drained = times_drained(info.order(shape, 0), info.splits_backwards);
    if (drained != info.fills(shape)) CHECK(drained == info.fills(shape));
  });
}

TEST_CASE("no schedule deadlocks, under any bound on active micro-batches", "[models][schedule]") {
  int runs = 0;
  for_every_schedule([&](const ScheduleInfo& info, PipelineShape shape) {
    INFO(name(info, shape));
    const int weights = info.splits_backwards ? 1 : 0;
    const int end = Pipe(info, shape).makespan({1, 2 - weights, weights});
    // The end cannot be before a stage has done its work, or before one micro-batch has passed all
    // stages.
    const int busy = 3 * shape.chunks * shape.micro_batches;
    const int travel = (3 - weights) * shape.chunks * shape.stages;
    ++runs;
    if (end < std::max(busy, travel)) CHECK(end >= std::max(busy, travel));
  });
  CHECK(runs > 3000);
}

TEST_CASE("a deadlock is seen by the test's own pipe", "[models][schedule]") {
  // The last stage runs the second forward before the first backward, the first stage the reverse.
  const ScheduleInfo crossed{
      .kind = ScheduleKind::gpipe,
      .name = "crossed",
      .summary = "",
      .order = [](PipelineShape, int stage) -> StageOrder {
        using enum TaskKind;
        if (stage == 1)
          return {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}};
        return {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}};
      }};
  CHECK(Pipe(crossed, {2, 1, 2, 0}).makespan({}) == -1);
}

TEST_CASE("equal stages take the time of the formula", "[models][schedule]") {
  // A pipeline of p stages is full after p-1 forwards and empty p-1 backwards after the last one,
  // so a step takes (m + p - 1)(f + b). If a stage's work is split into v chunks, the bubble
  // shrinks to (p - 1)(f + b)/v. Here f and b are the times of a chunk, so both sides are
  // multiplied by v.
  for (int p = 1; p <= 8; ++p)
    for (int m : {1, 2, 4, 7, 8, 16, 24})
      for (const Times chunk : {Times{1, 1}, Times{1, 2}, Times{5, 11}}) {
        const int both = chunk.forward + chunk.backward;
        INFO("p=" << p << " m=" << m << " f=" << chunk.forward << " b=" << chunk.backward);
        CHECK(makespan(ScheduleKind::gpipe, {p, 1, m, 0}, chunk) == (m + p - 1) * both);
        CHECK(makespan(ScheduleKind::one_f_one_b, {p, 1, m, 0}, chunk) == (m + p - 1) * both);
        if (m % p != 0) continue;
        for (int v = 1; v <= 4; ++v)
          CHECK(makespan(ScheduleKind::interleaved, {p, v, m, 0}, chunk) == (m * v + p - 1) * both);
      }
}

TEST_CASE("a bound that a full pipe can live with costs no time", "[models][schedule]") {
  // The default of SageMaker's library is active_microbatches = partitions + 2.
  for (int p = 1; p <= 8; ++p)
    for (int m : {1, 3, 8, 16})
      CHECK(makespan(ScheduleKind::one_f_one_b, {p, 1, m, p + 2}, {1, 1}) == (m + p - 1) * 2);
  // With one active micro-batch, each passes the stages alone and takes 2 time units on each of 4.
  CHECK(makespan(ScheduleKind::one_f_one_b, {4, 1, 8, 1}, {1, 1}) == 8 * 4 * 2);
  CHECK(makespan(ScheduleKind::gpipe, {4, 1, 8, 1}, {1, 1}) == 8 * 4 * 2);
  CHECK(makespan(ScheduleKind::interleaved, {4, 2, 8, 1}, {1, 1}) == 8 * 8 * 2);
}

TEST_CASE("two stages and four micro-batches run in the published order", "[models][schedule]") {
  const auto order = [](ScheduleKind kind, int active, int stage) {
    return text(schedule_info(kind).order({2, 1, 4, active}, stage));
  };
  CHECK(order(ScheduleKind::gpipe, 0, 0) == "F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(order(ScheduleKind::gpipe, 0, 1) == "F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(order(ScheduleKind::one_f_one_b, 0, 0) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(order(ScheduleKind::one_f_one_b, 0, 1) == "F0 B0 F1 B1 F2 B2 F3 B3");
  // With the bound partitions + 2, which is the default of SageMaker's library, F2 fills the first
  // stage's idle time.
  CHECK(order(ScheduleKind::one_f_one_b, 4, 0) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(order(ScheduleKind::one_f_one_b, 4, 1) == "F0 B0 F1 B1 F2 B2 F3 B3");
  // With a bound of two, the warm-up is the usual one: the first stage runs B0 before F2.
  CHECK(order(ScheduleKind::one_f_one_b, 2, 0) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(order(ScheduleKind::gpipe, 2, 0) == "F0 F1 B0 B1 F2 F3 B2 B3");
}

TEST_CASE("interleaved sends a group of micro-batches through all chunks", "[models][schedule]") {
  const auto order = [](int stage) {
    return text(schedule_info(ScheduleKind::interleaved).order({2, 2, 4, 0}, stage));
  };
  // The warm-up has 2(p-1-s) + (v-1)p forwards: four on stage 0, two on stage 1.
  CHECK(order(0) == "F0 F1 F0'1 F1'1 F2 B0'1 F3 B1'1 F2'1 B0 F3'1 B1 B2'1 B3'1 B2 B3");
  CHECK(order(1) == "F0 F1 F0'1 B0'1 F1'1 B1'1 F2 B0 F3 B1 F2'1 B2'1 F3'1 B3'1 B2 B3");
}

TEST_CASE("zero_bubble takes the time of the paper's formula", "[models][schedule]") {
  // For ZB-H1 (Qi et al., 2023, table 2), the bubble is (p - 1)(f + b - w). For 1f1b it is
  // (p - 1)(f + b + w). f, b and w are the times of a forward and of the two halves of a backward.
  for (int p = 1; p <= 8; ++p)
    for (int m : {p, p + 1, 2 * p, 3 * p + 1, 24})
      for (const Times t : {Times{1, 1, 1}, Times{2, 2, 1}, Times{3, 3, 2}, Times{2, 3, 1}}) {
        INFO("p=" << p << " m=" << m << " f=" << t.forward << " b=" << t.backward
                  << " w=" << t.weights);
        const int work = m * (t.forward + t.backward + t.weights);
        const Times whole{t.forward, t.backward + t.weights};
        CHECK(makespan(ScheduleKind::zero_bubble, {p, 1, m, 0}, t) ==
              work + (p - 1) * (t.forward + t.backward - t.weights));
        CHECK(makespan(ScheduleKind::one_f_one_b, {p, 1, m, 0}, whole) ==
              work + (p - 1) * (t.forward + t.backward + t.weights));
      }
}

TEST_CASE("interleaved_zero_bubble has the bubble of zero_bubble over its chunks",
          "[models][schedule]") {
  for (int p = 1; p <= 8; ++p)
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (int groups : {1, 2, 3, 5})
        for (const Times t : {Times{1, 1, 1}, Times{2, 2, 1}, Times{3, 3, 2}, Times{2, 3, 1}}) {
          INFO("p=" << p << " chunks=" << chunks << " groups=" << groups << " f=" << t.forward
                    << " b=" << t.backward << " w=" << t.weights);
          const int work = groups * p * chunks * (t.forward + t.backward + t.weights);
          const PipelineShape shape{p, chunks, groups * p, 0};
          CHECK(makespan(ScheduleKind::interleaved_zero_bubble, shape, t) ==
                work + (p - 1) * (t.forward + t.backward - t.weights));
        }
}

TEST_CASE("zero_bubble_v waits for nothing but the first forwards", "[models][schedule]") {
  for (int p = 2; p <= 8; ++p)
    for (int m : {2 * p - 1, 2 * p, 3 * p + 1, 40}) {
      INFO("p=" << p << " m=" << m);
      CHECK(makespan(ScheduleKind::zero_bubble_v, {p, 2, m, 0}, {1, 1, 1}) == 6 * m + p - 1);
    }
  // The first stage of 1f1b holds p micro-batches. Every stage of zero_bubble_v holds 2 p halves.
  for (int stage = 0; stage < 4; ++stage) {
    const PipelineShape shape{4, 2, 16, 0};
    const auto order = schedule_info(ScheduleKind::zero_bubble_v).order(shape, stage);
    CHECK(walk(order, shape, true).pairs == 2 * 4);
  }
}

TEST_CASE("dualpipe_v runs in the published order", "[models][schedule]") {
  // The expected order is that of DeepSeek's implementation for two stages and four micro-batches:
  // forwards of chunk 0 until chunk 1 has one, and weight gradients of the last backwards at the
  // end.
  const auto order = [](int stage) {
    return text(schedule_info(ScheduleKind::dualpipe_v).order({2, 2, 4, 0}, stage));
  };
  CHECK(order(0) ==
        "F0 F1 F2 F0'1 B0'1 W0'1 F1'1 F3 B1'1 W1'1 F2'1 B0 W0 B2'1 W2'1 F3'1 B1 W1 B3'1 W3'1 B2 W2 "
        "B3 W3");
  CHECK(order(1) ==
        "F0 F0'1 F1 F1'1 F2 B0'1 W0'1 F2'1 B0 W0 F3 B1'1 W1'1 F3'1 B1 W1 B2'1 W2'1 B2 W2 B3'1 B3 "
        "W3'1 W3");
}

TEST_CASE("dualpipe_v idles as its tasks after each other make it", "[models][schedule]") {
  // The published bubble is (p - 1)(F&B + B - 3W). F&B = f + b + w is the time of a forward and a
  // backward that begin and end together, and B = b + w, so it is (p - 1)(f + 2 b - w). Here tasks
  // run one after the other and send their results at once, which saves b between two stages.
  for (int p = 1; p <= 8; ++p)
    for (int m : {2 * p, 2 * p + 1, 3 * p + 1, 40})
      for (const Times t : {Times{1, 1, 1}, Times{2, 2, 1}, Times{3, 2, 1}, Times{5, 4, 3}}) {
        INFO("p=" << p << " m=" << m << " f=" << t.forward << " b=" << t.backward
                  << " w=" << t.weights);
        const int chunks = p == 1 ? 1 : 2;
        CHECK(makespan(ScheduleKind::dualpipe_v, {p, chunks, m, 0}, t) ==
              chunks * m * (t.forward + t.backward + t.weights) +
                  (p - 1) * (t.forward + t.backward - t.weights));
      }
  // The published memory is one half micro-batch more than that of 1f1b and zero_bubble_v.
  for (int stage = 0; stage < 4; ++stage) {
    const PipelineShape shape{4, 2, 16, 0};
    CHECK(walk(schedule_info(ScheduleKind::dualpipe_v).order(shape, stage), shape, true).pairs ==
          2 * 4 + 1);
  }
}

namespace {

// Returns the least time in which any order of the tasks of `p` stages can end, with at most `p`
// micro-batches of each in flight. It walks every state that unit tasks on all stages can reach,
// time step by time step.
int least_time(int p, int m) {
  using State = std::vector<std::array<int, 3>>;  // by stage: forwards, backwards, weights ended
  std::set<State> now{State(static_cast<std::size_t>(p), {0, 0, 0})};
  const auto could = [&](const State& state, int stage, int kind) {
    const auto s = static_cast<std::size_t>(stage);
    const auto [f, b, w] = state[s];
    if (kind == 0) return f < m && f - w < p && (stage == 0 || state[s - 1][0] > f);
    if (kind == 1) return b < f && (stage == p - 1 || state[s + 1][1] > b);
    return w < b;
  };
  for (int time = 0;; ++time) {
    std::set<State> next;
    for (const State& state : now) {
      if (state == State(static_cast<std::size_t>(p), {m, m, m})) return time;
      std::vector<State> grown{state};  // states after this time step, in which a stage may be idle
      for (int stage = 0; stage < p; ++stage) {
        const std::vector<State> before = grown;
        for (int kind = 0; kind < 3; ++kind)
          if (could(state, stage, kind))
            for (State more : before) {
              ++more[static_cast<std::size_t>(stage)][static_cast<std::size_t>(kind)];
              grown.push_back(more);
            }
      }
      next.insert(grown.begin(), grown.end());
    }
    now = std::move(next);
  }
}

}  // namespace

TEST_CASE("no order of equal tasks within that memory beats zero_bubble", "[models][schedule]") {
  // For two stages and f = b = w = 1 the formula gives 3m + 1, and the states are few enough for a
  // test.
  for (int m : {2, 3, 4}) {
    CHECK(makespan(ScheduleKind::zero_bubble, {2, 1, m, 0}, {1, 1, 1}) == 3 * m + 1);
    CHECK(least_time(2, m) == 3 * m + 1);
  }
}

TEST_CASE("zero_bubble puts weight gradients off on later stages", "[models][schedule]") {
  const auto order = [](int active, int stage) {
    return text(schedule_info(ScheduleKind::zero_bubble).order({2, 1, 3, active}, stage));
  };
  CHECK(order(0, 0) == "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  CHECK(order(0, 1) == "F0 B0 F1 B1 W0 F2 B2 W1 W2");
  CHECK(order(1, 1) == "F0 B0 W0 F1 B1 W1 F2 B2 W2");  // nothing can be deferred
}
