// What is decided and checked once before a training run starts, and how every rank learns of it.
#pragma once

#include <filesystem>
#include <string>

#include "exec/data/loader.h"
#include "models/job/job.h"
#include "tools/choose.h"
#include "tools/options.h"

namespace meshwright {

struct Run {
  Job job;
  Chosen chosen;
};

// Reads the job of the command line and chooses its plan. Refuses what cannot run: a cluster that
// is not this computer, wrong data files, files that cannot be written (InputError); what does not
// fit (NoPlanFits).
Run settle_run(const Options& options);

LoaderOptions loader_options(const Job& job);

// A folder for what the ranks read; gone when the run is.
class RunFolder {
 public:
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  std::string job() const { return (path_ / "job.json").string(); }
  std::string profile() const { return (path_ / "local.json").string(); }

 private:
  std::filesystem::path path_;
};

// The settled job, with absolute paths, and the profile it was planned with: every rank decides
// alike.
void write_settled(const Run& run, const RunFolder& folder);

}  // namespace meshwright
