// DualPipe (DeepSeek-V3 Technical Report, 2024) cut in half, "DualPipeV": two chunks for each
// stage, which micro-batches pass there and back. In its middle every stage alternates between
// forwards of one chunk and backwards of the other, two that need nothing of each other, so that
// what one of them exchanges goes beside what the other computes. Here they are tasks one after the
// other, and input gradients go on before the weights' gradients. With equal stages, times f, b, w
// of the three tasks of a chunk and f >= b >= w, the bubble is (p - 1)(f + b - w); that of forwards
// and backwards that begin and end together is published as (p - 1)(f + 2 b - w). A stage holds up
// to 2 p + 1 half micro-batches. With fewer than 2 p of them, the order is that of 2 p without
// those that there are not.
#include <algorithm>
#include <deque>

#include "models/compiler/schedule/vee.h"

namespace meshwright {

namespace {

void write_dualpipe_v(int stages, int stage, int micro_batches, VeeWriter& write) {
  using namespace vee;
  const int after = stages - stage - 1, passed = stage + 1;
  const int rounds = std::max(micro_batches, 2 * stages) - 2 * stages + passed;
  // Until the first one comes back, and until its backward does.
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
  // Gradients alone are left: the later half of them pass first, their weights fill what is left.
  std::deque<int> put_off;  // chunks
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
          "two virtual stages for each stage, there and back as those of `zero_bubble_v`; forwards "
          "of one take turns with backwards of the other (DualPipeV), one after the other, so that "
          "messages of one go beside the other's compute; every stage keeps up to 2 × `pipeline` + "
          "1 micro-batches of one of its halves or the other; from 2 × `pipeline` micro-batches on "
          "as published, with fewer without the rest; `virtual_stages` 2, `zero_stage` 0 to 2",
      .least_chunks = 2,
      .most_chunks = 2,
      .splits_backwards = true,
      .stage_shape = StageShape::vee,
      .order = dualpipe_v,
      .in_flight = vee_in_flight};
  return row;
}

}  // namespace meshwright
