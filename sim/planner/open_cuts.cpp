// Lists the pipeline cuts of a space.
#include "models/compiler/plan/units_to_cut.h"
#include "models/compiler/schedule/schedule.h"
#include "sim/planner/open_keys.h"

namespace meshwright::sim {

namespace {

// Returns whether zero_bubble leaves more than 5 % of the step idle. If all tasks take equally
// long, each of p stages works for 3 m tasks on m micro-batches and idles for p - 1. If the share
// is smaller, schedules with several virtual stages that split backwards too are not worth trying,
// because they could save no more than that.
bool zero_bubble_idles(int pipeline, int micro_batches) {
  constexpr double little = 0.05;
  const double idle = pipeline - 1;
  return idle > little * (3.0 * micro_batches + idle);
}

// Returns the numbers of virtual stages per stage to try with a schedule, at least one unit for
// each. If the job fixes the number, it is the only one. Otherwise they must divide the layers, or
// all units, so that embedding and head may be alone. A schedule with a fixed number of virtual
// stages need not.
std::vector<int> chunks_of(const OpenKeys& open, const ScheduleInfo& schedule, int pipeline) {
  const bool free_chunks = open.job.is_auto("parallelism.virtual_stages");
  const int units = units_to_cut(open.sizes);
  std::vector<int> found;
  if (pipeline == 1) return found;
  for (int chunks = schedule.least_chunks;
       chunks <= schedule.most_chunks && chunks * pipeline <= units; ++chunks) {
    const int all = chunks * pipeline;
    const bool divides = open.sizes.layers % all == 0 || units % all == 0;
    if (free_chunks ? divides || schedule.least_chunks == schedule.most_chunks
                    : chunks == open.base.parallelism.virtual_stages)
      found.push_back(chunks);
  }
  return found;
}

}  // namespace

std::vector<PipelineCut> cuts_of(const OpenKeys& open, int pipeline, int micro_batches) {
  const Parallelism& p = open.base.parallelism;
  const bool free_schedule = open.job.is_auto("parallelism.schedule");
  const bool free_chunks = open.job.is_auto("parallelism.virtual_stages");
  if (!free_schedule && (schedule_info(p.schedule).most_chunks == 1 || !free_chunks))
    return {{p.schedule, free_chunks ? 1 : p.virtual_stages}};
  const bool splits = !p.offloads_activations() && !open.base.training.recompute_budget;
  std::vector<PipelineCut> found;
  if (free_schedule && (free_chunks || p.virtual_stages == 1)) {
    found.push_back({ScheduleKind::one_f_one_b, 1});
    if (pipeline > 1) {
      if (splits) found.push_back({ScheduleKind::zero_bubble, 1});
      if (p.active_microbatches == 0) found.push_back({ScheduleKind::gpipe, 1});
    }
  }
  for (const ScheduleInfo& info : schedule_kinds()) {
    const bool tried = free_schedule ? !info.splits_backwards ||
                                           (splits && zero_bubble_idles(pipeline, micro_batches))
                                     : info.kind == p.schedule;
    // If the schedule is open, dualpipe_v is not tried, because it idles as long as zero_bubble_v
    // and saves more activations.
    if (free_schedule && info.kind == ScheduleKind::dualpipe_v) continue;
    if (info.most_chunks == 1 || !tried) continue;
    for (const int chunks : chunks_of(open, info, pipeline))
      if (chunks > 1 || !free_schedule) found.push_back({info.kind, chunks});
  }
  if (found.empty())
    found.push_back({free_schedule ? ScheduleKind::interleaved : p.schedule,
                     free_chunks ? 1 : p.virtual_stages});
  return found;
}

}  // namespace meshwright::sim
