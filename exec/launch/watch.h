// Reads what mpirun and the ranks write to standard error: lets the ranks' lines through, and turns
// mpirun's paragraphs about a failed rank into one line. When all ranks complain (`error: ...`, or
// `rank 1 failed: ...`), the first one is heard.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

struct Verdict {
  int exit_code = 0;
  std::string shown;  // lines for standard error, empty when all is well
};

class FailureWatch {
 public:
  // Takes text as it comes; returns what is to be shown now.
  std::string add(std::string_view text);
  // `status`: mpirun's exit code, 128 + signal for one that died by a signal.
  Verdict verdict(int status);

 private:
  std::string end_line(const std::string& line);
  bool is_heard_already(const std::string& line);
  bool understood();  // the paragraph: whether it says what we say ourselves

  std::string line_;       // not ended yet
  std::string paragraph_;  // of mpirun, between two rules of dashes
  bool inside_ = false;
  std::string error_;                      // the first `error: ` line
  bool explained_ = false;                 // a rank has said why it failed
  int rank_ = -1, signal_ = 0, code_ = 0;  // of the first rank that failed
};

}  // namespace meshwright
