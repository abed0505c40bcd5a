#include "exec/launch/watch.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "exec/launch/exit_codes.h"
#include "exec/launch/marks.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr std::size_t rule_length = 61;  // at least

bool is_rule(const std::string& line) {
  return line.size() >= rule_length && line.find_first_not_of('-') == std::string::npos;
}

// Returns the length of what comes before the rule at the end of a line, or 0 if no rule ends it.
std::size_t length_before_rule(const std::string& line) {
  const std::size_t end = line.find_last_not_of("\r\n") + 1;
  const std::size_t words = end == 0 ? 0 : line.find_last_not_of('-', end - 1) + 1;
  return end - words >= rule_length ? words : 0;
}

// Returns the number after `before`, or -1 if there is none.
int number_after(const std::string& text, std::string_view before) {
  std::size_t at = text.find(before);
  if (at == std::string::npos) return -1;
  at = text.find_first_not_of(' ', at + before.size());
  int value = -1;
  for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at)
    value = std::max(value, 0) * 10 + (text[at] - '0');
  return value;
}

// Returns the word after the first `mark` that follows `line` in `text`, or an empty string if
// there is none.
std::string word_after(const std::string& text, std::string_view line, std::string_view mark) {
  std::size_t at = text.find(line);
  if (at != std::string::npos) at = text.find(mark, at + line.size());
  if (at == std::string::npos) return "";
  std::istringstream words(text.substr(at + mark.size()));
  std::string word;
  words >> word;
  return word;
}

std::size_t count_hosts(const std::vector<std::string>& hosts) {
  return std::set<std::string>(hosts.begin(), hosts.end()).size();
}

}  // namespace

std::string FailureWatch::add(std::string_view text) {
  std::string shown;
  for (char c : text) {
    line_ += c;
    // A carriage return ends a line too, so that a progress bar is shown at once.
    if (c != '\n' && c != '\r') continue;
    // mpirun may write this line in the middle of a rank's line. It is removed, and the rank's line
    // goes on.
    if (const std::size_t words = line_.find("mpirun: Forwarding signal ");
        words != std::string::npos) {
      line_.resize(words);
      continue;
    }
    if (const std::size_t mark = line_.find(mark_begin); mark != std::string::npos) {
      hear_mark(std::string_view(line_).substr(mark + 1));
      line_.resize(mark);
      continue;
    }
    if (const std::size_t words = length_before_rule(line_); words > 0) {
      shown += end_line(line_.substr(0, words) + '\n');
      line_.erase(0, words);
    }
    shown += end_line(line_);
    line_.clear();
  }
  return shown;
}

void FailureWatch::hear_mark(std::string_view mark) {
  const auto number = [&](std::string_view name) {
    return std::atoi(std::string(mark.substr(name.size())).c_str());
  };
  if (mark.starts_with(mark_started)) started_.insert(number(mark_started));
  if (mark.starts_with(mark_met)) has_met_ = true;
  if (mark.starts_with(mark_ended)) last_word_ = number(mark_ended);
  if (mark.starts_with(mark_trace)) {
    const std::size_t words = mark.find(' ', mark_trace.size());
    traces_[number(mark_trace)] += words == mark.npos ? "\n" : mark.substr(words + 1);
  }
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
  if (!inside_) return is_held_back(bare) ? "" : line;
  paragraph_ += line;
  return "";
}

bool FailureWatch::is_held_back(const std::string& line) {
  if (line.starts_with("error: ")) {
    if (line == error_) return true;
    if (error_.empty()) error_ = line;
    return false;
  }
  if (line.starts_with("internal error: ")) internal_error_ = true;
  if (number_after(line, "rank ") < 0 && !line.starts_with("a rank failed: ")) return false;
  if (!line.starts_with("rank ") && !line.starts_with("a rank ")) return false;
  if (line.find(" failed: ") == std::string::npos) return false;
  hear_failure(line);
  return true;
}

// Reads a line such as "rank 0 failed: ...: waited 600 s for ranks 1 and 2", or "rank 0 failed:
// meeting the other ranks took more than 600 s". Such a line is held back until it is known whether
// a rank was killed.
void FailureWatch::hear_failure(const std::string& line) {
  const std::size_t waited = line.rfind(": waited ");
  const bool met_nobody = line.find(" took more than ") != std::string::npos;
  const bool in_vain = waited != std::string::npos || met_nobody;
  if (failures_.empty() || in_vain) failures_ += line + '\n';
  if (!in_vain) return;
  const int who = number_after(line, "rank ");
  waiting_.insert(who);
  if (waited != std::string::npos) return hear_waiting(line, line.find(" for rank", waited));
  for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank)
    if (rank != who) awaited_.insert(rank), waits_.insert({who, rank});
}

void FailureWatch::hear_waiting(const std::string& line, std::size_t from) {
  for (std::size_t at = from; at < line.size(); ++at) {
    if (std::isdigit(static_cast<unsigned char>(line[at])) == 0) continue;
    int rank = 0;
    for (; at < line.size() && std::isdigit(static_cast<unsigned char>(line[at])) != 0; ++at)
      rank = rank * 10 + (line[at] - '0');
    awaited_.insert(rank);
    waits_.insert({number_after(line, "rank "), rank});
  }
}

// Returns where the rank failed whose failure was heard first, if it has said that.
std::string FailureWatch::first_trace() const {
  const auto found = traces_.find(number_after(failures_, "rank "));
  return found == traces_.end() ? "" : found->second;
}

// Returns the ranks' names, with their hosts if there are several.
std::string FailureWatch::name_of(const std::vector<int>& ranks) const {
  std::vector<std::string> numbers, hosts;
  for (int rank : ranks) {
    numbers.push_back(std::to_string(rank));
    if (rank >= static_cast<int>(hosts_.size())) continue;
    const std::string& host = hosts_[rank];
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  std::string name = (numbers.size() == 1 ? "rank " : "ranks ") + list_of(numbers, "and");
  if (count_hosts(hosts_) > 1)
    name += (hosts.size() == 1 ? " on host " : " on hosts ") + list_of(hosts, "and");
  return name;
}

// Returns a line with the ranks that others waited for and that did not report a wait of their own.
// If there are none, returns what silent_network() returns.
std::string FailureWatch::silent_ranks() const {
  std::vector<int> silent;
  for (int rank : awaited_)
    if (!waiting_.contains(rank)) silent.push_back(rank);
  if (silent.empty()) return silent_network();
  return name_of(silent) + " did not answer; all were stopped\n";
}

std::string FailureWatch::not_met(double seconds) const {
  std::ostringstream text;
  std::vector<int> missing;
  for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank)
    if (!started_.contains(rank)) missing.push_back(rank);
  text << "waited " << seconds << " s: ";
  if (missing.empty())
    text << "the ranks have started and have not met";
  else
    text << "mpirun has not started " << name_of(missing);
  text << "; all were stopped\n";
  return text.str();
}

// Returns a line about the network between hosts if ranks of different hosts waited for each other,
// otherwise an empty string. Since all wait, what they sent did not arrive.
std::string FailureWatch::silent_network() const {
  std::set<std::string> apart;
  for (const auto& [who, whom] : waits_) {
    if (std::max(who, whom) >= static_cast<int>(hosts_.size()) || who < 0) continue;
    const auto &here = hosts_[who], &there = hosts_[whom];
    if (here != there) apart.insert({here, there});
  }
  if (apart.empty()) return "";
  return "the hosts " + list_of({apart.begin(), apart.end()}, "and") +
         " waited for one another: the network between them loses what they send; all were "
         "stopped\n";
}

// Reads a paragraph in the words of Open MPI 4. Returns false if the paragraph is to be shown as it
// is, which includes all paragraphs in other words.
bool FailureWatch::understood() {
  if (paragraph_.starts_with("Primary job") || paragraph_.starts_with("MPI_ABORT")) return true;
  if (paragraph_.starts_with("ORTE was unable to reliably start")) {
    could_not_start_ = true;
    return false;
  }
  if (paragraph_.starts_with("ORTE has lost communication")) {
    lost_host_ = word_after(paragraph_, "Remote daemon: ", "on node ");
    return !lost_host_.empty();
  }
  if (paragraph_.starts_with("ORTE does not know how to route")) {
    lost_host_ = word_after(paragraph_, "target node:", "");
    return !lost_host_.empty();
  }
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
  const int signal = signal_ > 0 ? signal_ : status > 128 && status <= 128 + 64 ? status - 128 : 0;
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
  const bool no_host = could_not_start_ || !lost_host_.empty();
  int code = no_host ? run_failed : code_ > 0 ? code_ : status;
  // Exit code 1 is a fault of this program only after an internal error. MPI, and an mpirun that
  // could not start its ranks, end with 1 too.
  if (code == our_fault && !internal_error_) code = run_failed;
  result.exit_code = code <= stopped ? code : run_failed;
  result.shown += failures();
  if (!lost_host_.empty())
    result.shown += "mpirun lost host " + lost_host_ +
                    ": its daemon there has ended, or the network between them is cut; all were "
                    "stopped\n";
  const bool somebody_spoke = rank_ >= 0 || !failures_.empty() || !error_.empty() || has_met_;
  if (!somebody_spoke && lost_host_.empty() && code == run_failed)
    result.shown += "mpirun could not start the ranks; what it said is above\n";
  // A rank has explained bad input already, and a request to stop is not a failure.
  if (rank_ >= 0 && code != bad_input && code != stopped && failures_.empty())
    result.shown +=
        who + " ended with exit code " + std::to_string(code) + "; the others were stopped\n";
  return result;
}

}  // namespace meshwright::exec
