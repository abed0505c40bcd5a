// Formats numbers and tables for people.
#pragma once

#include <string>
#include <vector>

namespace meshwright::session {

std::string show_seconds(double seconds);   // 412.6 ms, 3.210 s
std::string show_duration(double seconds);  // 9.5 days, 7.2 h, 4.5 min; short ones as show_seconds
std::string show_usd(double usd);           // $12.34, $1234, -$1234
std::string show_bytes(double bytes);       // 31.2 GiB
std::string show_count(double count);       // 6.74 B, 124.0 M, 5120
std::string show_percent(double fraction);  // 27.3 %
std::string show_number(double value, int digits);

// A table with a head. As text, its first column is left-aligned, the others are right-aligned, and
// two blanks separate columns.
class Table {
 public:
  explicit Table(std::vector<std::string> head);
  void add(std::vector<std::string> row);
  std::string text() const;
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }  // the head first

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace meshwright::session
