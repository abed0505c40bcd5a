#include "tools/session/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>

#include "tools/session/screen.h"

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

namespace {

using Rows = std::vector<std::vector<std::string>>;

// Has the widths of a table's columns. The one at index `broken` may be narrower than its cells.
struct Layout {
  std::vector<std::size_t> widths;
  std::optional<std::size_t> broken;
};

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], columns_of(row[i]));
    }
  return widths;
}

std::size_t total_of(const std::vector<std::size_t>& widths) {
  constexpr std::size_t gap = 2;
  return std::accumulate(widths.begin(), widths.end(), (widths.size() - 1) * gap);
}

std::optional<std::size_t> column_called(const Rows& rows, const std::string& name) {
  const auto found = std::ranges::find(rows.front(), name);
  if (name.empty() || found == rows.front().end()) return std::nullopt;
  return static_cast<std::size_t>(found - rows.front().begin());
}

// Returns the index of the widest column with blanks in its cells, or nothing if no cell has any.
std::optional<std::size_t> widest(const Rows& rows, const std::vector<std::size_t>& widths) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const bool has_words = std::ranges::any_of(rows, [&](const std::vector<std::string>& row) {
      return i < row.size() && row[i].find(' ') != std::string::npos;
    });
    if (has_words && (!found || widths[i] > widths[*found])) found = i;
  }
  return found;
}

// Returns a layout of at most `columns`. If necessary, the cells of the column `breaks` are broken,
// or those of the widest column if `breaks` is empty. Returns nothing if that is not enough.
std::optional<Layout> layout_of(const Rows& rows, const std::string& breaks, std::size_t columns) {
  constexpr std::size_t least = 16;  // least width of a broken column
  Layout layout{widths_of(rows), std::nullopt};
  const std::size_t total = total_of(layout.widths);
  if (total <= columns) return layout;
  layout.broken = breaks.empty() ? widest(rows, layout.widths) : column_called(rows, breaks);
  if (!layout.broken) return std::nullopt;
  std::size_t& width = layout.widths[*layout.broken];
  if (width < total - columns + std::min(width, least)) return std::nullopt;
  width -= total - columns;
  return layout;
}

std::string aligned(const std::string& cell, std::size_t width, bool left) {
  const std::string blanks(width - std::min(width, columns_of(cell)), ' ');
  return left ? cell + blanks : blanks + cell;
}

// Returns the lines of one row. A broken cell continues on the following lines.
std::string lines_of(const std::vector<std::string>& row, const Layout& layout) {
  std::vector<std::string> cells = row;
  std::string text;
  for (bool more = true; more;) {
    more = false;
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      std::string rest;
      if (layout.broken == i) {
        const std::string broken = broken_lines(cells[i], layout.widths[i]);
        const std::size_t end = std::min(broken.find('\n'), broken.size());
        rest = broken.substr(std::min(broken.find_first_not_of("\n ", end), broken.size()));
        cells[i] = broken.substr(0, end);
      }
      line +=
          (i == 0 ? "" : "  ") + aligned(cells[i], layout.widths[i], i == 0 || layout.broken == i);
      cells[i] = rest;
      more |= !rest.empty();
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

void remove_column(Rows& rows, std::size_t column) {
  for (auto& row : rows)
    if (column < row.size()) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
}

}  // namespace

Table::Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

std::string Table::text() const { return text(screen_columns()); }

std::string Table::text(std::size_t columns) const {
  Rows rows = rows_;
  std::string lacking;
  std::optional<Layout> layout = layout_of(rows, breaks_, columns);
  for (const std::string& name : lacks_) {
    if (layout) break;
    const std::optional<std::size_t> column = column_called(rows, name);
    if (!column) continue;
    remove_column(rows, *column);
    lacking += (lacking.empty() ? "" : ", ") + name;
    layout = layout_of(rows, breaks_, columns);
  }
  if (!layout) layout = Layout{widths_of(rows), std::nullopt};
  std::string text;
  for (const auto& row : rows) text += lines_of(row, *layout);
  return lacking.empty() ? text : text + "--wide shows more: " + lacking + "\n";
}

}  // namespace meshwright::session
