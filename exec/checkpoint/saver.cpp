#include "exec/checkpoint/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace meshwright::exec {

namespace {

std::string shard_name(int rank) { return fmt::format("rank-{:05}.shard", rank); }

}  // namespace

std::future<Saver::Outcome> Saver::in_background(std::function<Outcome()> work) {
  return std::async(std::launch::async, [work = std::move(work)]() -> Outcome {
    try {
      return work();
    } catch (const std::exception& error) {
      return {{}, error.what(), ""};
    }
  });
}

Saver::Saver(std::string folder, int keep, Runtime& runtime, Communicator& all, Say say)
    : folder_(std::move(folder)),
      keep_(keep),
      runtime_(runtime),
      all_(all),
      say_(std::move(say)),
      pieces_(pieces_of(runtime)) {}

Saver::~Saver() {
  if (task_.valid()) task_.wait();
}

void Saver::save(const Manifest& about) {
  finish();
  manifest_ = about;
  const StepSettings& training = runtime_.program().settings->training;
  manifest_.states = state_names(has_first_moment(training.optimizer),
                                 has_second_moment(training.optimizer), training.averages());
  manifest_.shards.clear();
  const LossScaleState scale = runtime_.loss_scale();
  manifest_.updates = about.step - scale.skipped;
  manifest_.numbers.clear();
  if (runtime_.scales_loss()) manifest_.numbers = to_numbers(scale);
  manifest_.histories = runtime_.histories();
  runtime_.memory().take_snapshot();
  stage_ = Stage::writing;
  const std::string part = part_folder(folder_, about.step), name = shard_name(all_.rank());
  task_ = in_background(
      [this, part, name, states = manifest_.states, type = training.exact_type()]() -> Outcome {
        if (pieces_.empty()) return {};
        make_folder(part);
        return {write_shard(part + "/" + name, pieces_, states, type), "", ""};
      });
}

void Saver::poll() {
  if (stage_ != Stage::idle) advance(false);
}

bool Saver::finish() {
  while (stage_ != Stage::idle) advance(true);
  return last_good_;
}

void Saver::advance(bool wait) {
  if (task_.valid() &&
      (wait || task_.wait_for(std::chrono::seconds(0)) == std::future_status::ready))
    outcome_ = task_.get();
  Report own{Report::good, outcome_.shard.bytes, outcome_.shard.header_checksum};
  if (task_.valid()) own.status = Report::busy;
  if (!outcome_.error.empty()) own.status = Report::failed;
  std::vector<Report> reports(all_.size());
  all_.all_gather(&own, reports.data(), sizeof own);
  for (const Report& report : reports)
    if (report.status == Report::busy) return;
  const bool good = std::ranges::all_of(
      reports, [](const Report& report) { return report.status == Report::good; });
  if (good && stage_ == Stage::writing)
    complete(reports);
  else
    end(reports);
}

void Saver::complete(const std::vector<Report>& reports) {
  stage_ = Stage::completing;
  outcome_ = {};
  if (all_.rank() != 0) return;
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].bytes > 0)
      manifest_.shards.push_back({shard_name(static_cast<int>(rank)), reports[rank].bytes,
                                  static_cast<std::uint32_t>(reports[rank].checksum)});
  task_ = in_background([this]() -> Outcome {
    return {{}, "", commit(folder_, manifest_, keep_)};
  });
}

// Ends a save, whether it succeeded or not. The first rank that failed prints its error. Rank 0
// removes the folder of a failed save.
void Saver::end(const std::vector<Report>& reports) {
  stage_ = Stage::idle;
  const auto failed = std::ranges::find_if(
      reports, [](const Report& report) { return report.status == Report::failed; });
  last_good_ = failed == reports.end();
  if (last_good_) saved_step_ = manifest_.step;
  if (failed - reports.begin() == all_.rank())
    say_(fmt::format("checkpoint of step {} was NOT saved: {}; {}", manifest_.step, outcome_.error,
                     saved_step_ < 0 ? "none has been saved in this run yet"
                                     : fmt::format("that of step {} is complete", saved_step_)));
  if (!outcome_.not_removed.empty())
    say_(fmt::format("checkpoint of step {} is saved, but older ones stay: {}", manifest_.step,
                     outcome_.not_removed));
  outcome_ = {};
  std::error_code ignored;
  if (!last_good_ && all_.rank() == 0)  // so that a full disk has room again
    std::filesystem::remove_all(part_folder(folder_, manifest_.step), ignored);
}

}  // namespace meshwright::exec
