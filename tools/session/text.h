// Formats numbers and tables for people.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace meshwright::session {

std::string show_seconds(double seconds);   // 412.6 ms, 3.210 s
std::string show_duration(double seconds);  // 9.5 days, 7.2 h, 4.5 min; short ones as show_seconds
std::string show_usd(double usd);           // $12.34, $1234, -$1234
std::string show_bytes(double bytes);       // 31.2 GiB
std::string show_count(double count);       // 6.74 B, 124.0 M, 5120
std::string show_percent(double fraction);  // 27.3 %
std::string show_number(double value, int digits);

// Formats a table with a head. Two blanks separate columns. The first column is left-aligned, the
// others are right-aligned. If the table is wider than the screen, the cells of one column are
// broken, and that column is left-aligned. If that is not enough, columns of may_lack() are left
// out, and a last line names them, because --wide shows them.
class Table {
 public:
  explicit Table(std::vector<std::string> head);
  void add(std::vector<std::string> row);
  // Names the column whose cells may be broken at blanks, instead of the widest one that has
  // blanks.
  void may_break(std::string column) { breaks_ = std::move(column); }
  // Names the columns that may be left out on a narrow screen, the first one first.
  void may_lack(std::vector<std::string> columns) { lacks_ = std::move(columns); }
  std::string text() const;  // for screen_columns()
  std::string text(std::size_t columns) const;
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }  // the head first

 private:
  std::vector<std::vector<std::string>> rows_;
  std::string breaks_;
  std::vector<std::string> lacks_;
};

}  // namespace meshwright::session
