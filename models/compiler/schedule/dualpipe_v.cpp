// DualPipeV: DualPipe (DeepSeek-V3 Technical Report, 2024) cut in half. Each stage has two chunks,
// which micro-batches pass there and back. In the middle of a step every stage alternates between
// forwards of one chunk and backwards of the other. The two are independent, so that communication
// of one overlaps with compute of the other. Here they are tasks one after the other, and input
// gradients are sent before the weights' gradients are computed.
//
// With p equal stages, times f, b, w of the three tasks of a chunk, f >= b >= w, and 2 p or more
// micro-batches, the bubble is (p - 1)(f + b - w). The published bubble, for a forward and a
// backward that begin and end together and take f + b + w, is (p - 1)(f + 2 b - w). A stage holds
// up to 2 p + 1 half micro-batches. With fewer than 2 p micro-batches, the order is that of 2 p
// without the tasks of the missing ones.
#include <algorithm>
#include <deque>

#include "models/compiler/schedule/vee.h"

namespace meshwright::compiler {

namespace {

void write_dualpipe_v(int stages, int stage, int micro_batches, VeeWriter& write) {
  using namespace vee;
  const int after = stages - stage - 1, passed = stage + 1;
  const int rounds = std::max(micro_batches, 2 * stages) - 2 * stages + passed;
  // These forwards fill the time until the first micro-batch comes back, and then until its
  // backward does.
  for (int i = 0; i < 2 * after; ++i) write.forward(there);
  for (int i = 0; i < passed; ++i) write.forward(there), write.forward(back);
  for (int i = 0; i < after; ++i) write.both(back), write.forward(back);
  for (int i = 0; i < rounds; ++i) {
    write.forward(there), write.both(back);
    write.forward(back), write.both(there);
  }
  for (int i = 0; i < after; ++i) {
    write.both(back);
    write.forward(back), write.both(there);
  }
  // From here on, only backwards are left. The first of them are not split. Later, input gradients
  // go first, and weight gradients fill the time that is left.
  std::deque<int> put_off;  // chunks whose weight gradients are deferred
  const auto backward = [&](int chunk) { write.backward(chunk), put_off.push_back(chunk); };
  const auto weights = [&] { write.weights(put_off.front()), put_off.pop_front(); };
  for (int i = 0; i < 2 * passed; ++i) {
    const int chunk = i % 2 == 0 ? back : there;
    i < passed ? write.both(chunk) : backward(chunk);
  }
  for (int i = 0; i < after; ++i) weights(), backward(there);
  for (int i = 0; i < passed; ++i) weights();
}

StageOrder dualpipe_v(PipelineShape shape, int stage) {
  return vee_order(shape, stage, write_dualpipe_v);
}

}  // namespace

const ScheduleInfo& dualpipe_v_schedule() {
  static constexpr ScheduleInfo row{
      .kind = ScheduleKind::dualpipe_v,
      .name = "dualpipe_v",
      .summary =
          "forwards of one virtual stage in turn with backwards of the other, there and back",
      .rules =
          "DualPipeV: messages of a forward overlap with the compute of a backward, and the "
          "reverse. A stage keeps up to 2 × `pipeline` + 1 micro-batches, each of one of its two "
          "virtual stages. As published from 2 × `pipeline` micro-batches on; `virtual_stages` "
          "2, `zero_stage` 0 to 2",
      .least_chunks = 2,
      .most_chunks = 2,
      .splits_backwards = true,
      .stage_shape = StageShape::vee,
      .order = dualpipe_v,
      .in_flight = vee_in_flight};
  return row;
}

}  // namespace meshwright::compiler
