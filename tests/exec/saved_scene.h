// A folder with the checkpoints of steps 1 and 2, and a run that is to save step 3 there.
#pragma once

#include <map>
#include <string>

#include "tests/exec/saving_run.h"
#include "tests/test_folder.h"

namespace meshwright::tests {

// The contents of every file below a folder, by its path in it. Folders are included, with a slash
// at the end.
using Contents = std::map<std::string, std::string>;
Contents contents_of(const std::string& folder);

class SavedScene {
 public:
  SavedScene();

  void begin(const std::string& folder) const;  // puts the checkpoints into an empty folder
  // Returns whether the checkpoint of step 1, 2 or 3 is there to the last byte.
  bool holds(const std::string& folder, std::int64_t step) const;
  // Returns the step that a run resumes from with that step's parameters, or -1 if there is none.
  // Damage is an error of the test unless it may be there.
  std::int64_t newest(const std::string& folder, bool may_be_damaged = false);
  // Checks that step 4 is saved and is the step that a run resumes from.
  void check_next_save(const std::string& folder);

  SavingRun run;  // after step 3

 private:
  TestFolder good_;
  std::map<std::int64_t, std::string> hashes_;  // the parameters' hashes, by step
  std::map<std::int64_t, Contents> contents_;
  SavingRun reader_;
};

}  // namespace meshwright::tests
