// Reads what mpirun and the ranks write to standard error: lets the ranks' lines through, and turns
// mpirun's paragraphs about a failed rank into one line.
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
  bool understood();  // the paragraph: whether it says what we say ourselves

  std::string line_;       // not ended yet
  std::string paragraph_;  // of mpirun, between two rules of dashes
  bool inside_ = false;
  int rank_ = -1, signal_ = 0, code_ = 0;  // of the first rank that failed
};

}  // namespace meshwright
