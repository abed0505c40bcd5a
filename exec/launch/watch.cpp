#include "exec/launch/watch.h"

#include <algorithm>
#include <cctype>
#include <csignal>

namespace meshwright {

namespace {

constexpr int last_exit_code = 5;  // design: 0 done ... 5 stopped on request
constexpr int run_failed = 4, our_fault = 1, bad_input = 2, stopped = 5;

bool is_rule(const std::string& line) {
  return line.size() > 60 && line.find_first_not_of('-') == std::string::npos;
}

// The number after `before`, -1 when there is none.
int number_after(const std::string& text, std::string_view before) {
  std::size_t at = text.find(before);
  if (at == std::string::npos) return -1;
  at = text.find_first_not_of(' ', at + before.size());
  int value = -1;
  for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at)
    value = std::max(value, 0) * 10 + (text[at] - '0');
  return value;
}

}  // namespace

std::string FailureWatch::add(std::string_view text) {
  std::string shown;
  for (char c : text) {
    line_ += c;
    // A progress bar's carriage return ends a piece too: it is to be seen at once.
    if (c != '\n' && c != '\r') continue;
    shown += end_line(line_);
    line_.clear();
  }
  return shown;
}

std::string FailureWatch::end_line(const std::string& line) {
  const std::string bare = line.substr(0, line.find_last_not_of("\r\n") + 1);
  if (is_rule(bare)) {
    inside_ = !inside_;
    if (inside_) return "";
    const std::string whole = understood() ? "" : paragraph_;
    paragraph_.clear();
    return whole;
  }
  if (!inside_) return is_heard_already(bare) ? "" : line;
  paragraph_ += line;
  return "";
}

bool FailureWatch::is_heard_already(const std::string& line) {
  if (line.starts_with("mpirun: Forwarding signal")) return true;
  if (line.starts_with("error: ")) {
    if (line == error_) return true;
    if (error_.empty()) error_ = line;
    return false;
  }
  if (!line.starts_with("rank ") || line.find(" failed: ") == std::string::npos) return false;
  const bool before = explained_;
  explained_ = true;
  return before;
}

// Open MPI 4's words. Where other words are used, the paragraph is shown as it is.
bool FailureWatch::understood() {
  if (paragraph_.starts_with("Primary job") || paragraph_.starts_with("MPI_ABORT")) return true;
  if (paragraph_.starts_with("mpirun noticed that process rank")) {
    rank_ = number_after(paragraph_, "process rank ");
    signal_ = std::max(number_after(paragraph_, "exited on signal "), 0);
    return signal_ > 0;
  }
  if (paragraph_.starts_with("mpirun detected that one or more processes exited")) {
    // Process name: [[job,1],rank]
    rank_ = number_after(paragraph_, ",1],");
    code_ = std::max(number_after(paragraph_, "Exit code:"), 0);
    return true;
  }
  return false;
}

Verdict FailureWatch::verdict(int status) {
  Verdict result;
  if (inside_) result.shown += paragraph_;  // mpirun was killed in the middle of a word
  result.shown += line_;
  if (!line_.empty()) result.shown += '\n';
  if (status == 0) return result;
  const int signal = signal_ > 0 ? signal_ : status > 128 ? status - 128 : 0;
  const std::string who = rank_ >= 0 ? "rank " + std::to_string(rank_) : "a rank";
  if (signal == SIGUSR1 || (signal > 0 && code_ == stopped)) {
    result.exit_code = stopped;
    result.shown += "stopped on request, without a last report\n";
    return result;
  }
  if (signal > 0) {
    result.exit_code = signal == SIGABRT ? our_fault : run_failed;
    result.shown +=
        who + " was killed by signal " + std::to_string(signal) + "; the others were stopped\n";
    return result;
  }
  const int code = code_ > 0 ? code_ : status;
  result.exit_code = code <= last_exit_code ? code : run_failed;
  // Bad input has been explained by a rank; being asked to stop is no failure.
  if (rank_ >= 0 && code != bad_input && code != stopped && !explained_)
    result.shown +=
        who + " ended with exit code " + std::to_string(code) + "; the others were stopped\n";
  return result;
}

}  // namespace meshwright
