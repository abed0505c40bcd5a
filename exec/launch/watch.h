// Reads what mpirun and the ranks write to standard error. It lets the ranks' lines through, and
// turns mpirun's paragraphs about a failed rank into one line. If ranks repeat one complaint
// (`error: ...`), it is shown once. If several fail (`rank 1 failed: ...`), the first one is shown,
// and all that waited in vain and for whom. If a rank was killed, only that is shown, because it is
// the cause of the failures. If ranks of several hosts waited for each other, the network between
// them is named. Marks, which ranks write for the launcher only (marks.h), are read and never
// shown.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwright::exec {

struct Verdict {
  int exit_code = 0;
  std::string shown;  // lines for standard error, empty when all is well
};

class FailureWatch {
 public:
  // `hosts` holds the host of each rank, equal names if all are here. It is empty if they are not
  // known.
  explicit FailureWatch(std::vector<std::string> hosts = {}) : hosts_(std::move(hosts)) {}

  // Reads the next piece of standard error, which may end in the middle of a line. Returns the text
  // that is to be shown now.
  std::string add(std::string_view text);
  // Returns the verdict. `status` is mpirun's exit code, 128 + signal if a signal ended it.
  Verdict verdict(int status);
  // Returns whether a rank has reported that it ends, or mpirun that it has lost a host.
  bool has_failed() const { return !failures_.empty() || !lost_host_.empty(); }

  // Tell how far the run is, by the marks of its ranks.
  std::size_t started() const { return started_.size(); }
  bool has_met() const { return has_met_; }
  std::optional<int> last_word() const { return last_word_; }  // how rank 0 says that it ended
  // Names the ranks that are missing if they have not met after `seconds`.
  std::string not_met(double seconds) const;
  // Returns lines about the ranks that have failed and those that did not answer, or an empty
  // string if none are known.
  std::string failures() const { return first_trace() + failures_ + silent_ranks(); }

 private:
  void hear_mark(std::string_view mark);
  std::string end_line(const std::string& line);
  bool is_held_back(const std::string& line);
  void hear_failure(const std::string& line);
  void hear_waiting(const std::string& line, std::size_t from);
  std::string first_trace() const;
  std::string silent_ranks() const;
  std::string silent_network() const;
  std::string name_of(const std::vector<int>& ranks) const;
  bool understood();  // whether verdict() says what the paragraph says

  std::string line_;       // not ended yet
  std::string paragraph_;  // mpirun's text between two rules of dashes
  bool inside_ = false;
  std::string error_;                    // the first `error: ` line
  std::string failures_;                 // the ranks' words about their own failures
  std::set<int> waiting_, awaited_;      // who has waited in vain, and for whom
  std::set<std::pair<int, int>> waits_;  // pairs: who waited for whom
  std::vector<std::string> hosts_;       // host of each rank
  bool could_not_start_ = false;         // mpirun's daemon, on some host
  std::string lost_host_;
  std::map<int, std::string> traces_;      // by rank: its account of where it failed
  int rank_ = -1, signal_ = 0, code_ = 0;  // the rank that mpirun names, and its end
  bool internal_error_ = false;            // a rank has said that the fault is ours
  std::set<int> started_;                  // ranks
  bool has_met_ = false;
  std::optional<int> last_word_;
};

}  // namespace meshwright::exec
