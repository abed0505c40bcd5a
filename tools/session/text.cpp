#include "tools/session/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace meshwright::session {

std::string show_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 600) return fmt::format("{:.3f} s", seconds);
  return fmt::format("{:.0f} s", seconds);
}

std::string show_duration(double seconds) {
  constexpr double minute = 60, hour = 3600, day = 24 * hour;
  if (seconds >= 2 * day) return fmt::format("{:.1f} days", seconds / day);
  if (seconds >= hour) return fmt::format("{:.1f} h", seconds / hour);
  if (seconds >= 2 * minute) return fmt::format("{:.1f} min", seconds / minute);
  return show_seconds(seconds);
}

std::string show_usd(double usd) {
  return fmt::format("{}${:.{}f}", usd < 0 ? "-" : "", std::abs(usd), std::abs(usd) < 100 ? 2 : 0);
}

std::string show_bytes(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string show_count(double count) {
  if (count >= 1e12) return fmt::format("{:.2f} T", count / 1e12);
  if (count >= 1e9) return fmt::format("{:.2f} B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.1f} M", count / 1e6);
  return fmt::format("{:.0f}", count);
}

std::string show_percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }

std::string show_number(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

Table::Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

std::string Table::text() const {
  std::vector<std::size_t> width;
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i >= width.size()) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], width[i])
                     : fmt::format("  {:>{}}", row[i], width[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace meshwright::session
