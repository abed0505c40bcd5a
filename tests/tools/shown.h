// Shows numbers as the program's tables do, in a second and plain implementation, and compares
// tables of the program's text cell by cell with the rows of `--json`.
#pragma once

#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace shown {

inline std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

inline std::string whole(double value) { return number("%.0f", value); }
inline std::string percent(double share) { return number("%.1f %%", 100 * share); }
inline std::string change(double ratio) { return number("%+.1f %%", 100 * (ratio - 1)); }
inline std::string price(double usd) { return number("$%.4f", usd); }

inline std::string seconds(double s) {
  return s < 1e-3  ? number("%.1f us", s * 1e6)
         : s < 1   ? number("%.1f ms", s * 1e3)
         : s < 600 ? number("%.3f s", s)
                   : number("%.0f s", s);
}

inline std::string duration(double s) {
  return s < 120         ? seconds(s)
         : s < 3600      ? number("%.1f min", s / 60)
         : s < 2 * 86400 ? number("%.1f h", s / 3600)
                         : number("%.1f days", s / 86400);
}

inline std::string bytes(double b) {
  if (std::fabs(b) < 1024) return number("%.0f B", b);
  if (std::fabs(b) < 1024.0 * 1024) return number("%.1f KiB", b / 1024);
  if (std::fabs(b) < 1024.0 * 1024 * 1024) return number("%.1f MiB", b / (1024.0 * 1024));
  return number("%.1f GiB", b / (1024.0 * 1024 * 1024));
}

inline std::string usd(double dollars) {
  return number(dollars < 100 ? "$%.2f" : "$%.0f", dollars);
}

// Returns the cells of a line, which are separated by two blanks or more.
inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  for (std::size_t at = line.find_first_not_of(' '); at != std::string::npos;) {
    const std::size_t end = std::min(line.find("  ", at), line.size());
    all.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(' ', end);
  }
  return all;
}

// Returns the rows below the line whose first cells are `head`, up to an empty line.
inline std::vector<std::vector<std::string>> table(const std::string& text,
                                                   const std::vector<std::string>& head) {
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::vector<std::string> row = cells(text.substr(at, end - at));
    at = end + 1;
    if (inside && row.empty()) break;
    if (inside) rows.push_back(row);
    if (row.size() >= head.size() && std::equal(head.begin(), head.end(), row.begin()))
      inside = true;
  }
  return rows;
}

struct Column {
  std::string head;
  std::function<std::string(const nlohmann::json&)> cell;  // of a row of --json; null: any
};

// Checks that the table of `text` begins with these columns, and has for each of `rows` a line with
// their cells.
inline void check_table(const std::string& text, const nlohmann::json& rows,
                        const std::vector<Column>& columns) {
  std::vector<std::string> head;
  for (const Column& column : columns) head.push_back(column.head);
  const auto lines = table(text, head);
  CAPTURE(text, head);
  REQUIRE(lines.size() >= rows.size());
  REQUIRE(!rows.empty());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t c = 0; c < columns.size(); ++c) {
      CAPTURE(i, columns[c].head, rows[i].dump());
      REQUIRE(c < lines[i].size());
      if (columns[c].cell) CHECK(lines[i][c] == columns[c].cell(rows[i]));
    }
}

// Make a column with the values of `key`. The first one shows numbers by `show`, and a null as a
// dash.
inline Column column(const std::string& head, const std::string& key,
                     const std::function<std::string(double)>& show) {
  return {head, [=](const nlohmann::json& row) {
            return row.value(key, nlohmann::json()).is_null() ? "-" : show(row[key].get<double>());
          }};
}
inline Column word(const std::string& head, const std::string& key) {
  return {head, [=](const nlohmann::json& row) { return row[key].get<std::string>(); }};
}

}  // namespace shown
