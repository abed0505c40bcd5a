#include "tools/report/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/print.h"
#include "tools/session/text.h"

namespace meshwright::tools {

ProgressLine::ProgressLine()
    : on_terminal_(isatty(fileno(stderr)) != 0), begin_(Clock::now()), shown_(begin_) {}

ProgressLine::~ProgressLine() { end(); }

void ProgressLine::end() {
  if (is_shown_) std::fputs("\r\033[K", stderr);
  is_shown_ = false;
}

void ProgressLine::at(double share, const std::string& what) {
  constexpr std::chrono::milliseconds silent{2000}, between{200};
  if (!on_terminal_) return;
  const std::lock_guard lock(mutex_);
  if (share >= 1) return end();
  const auto now = Clock::now();
  if (now - begin_ < silent || (is_shown_ && now - shown_ < between) || share <= 0) return;
  is_shown_ = true;
  shown_ = now;
  const double passed_s = std::chrono::duration<double>(now - begin_).count();
  const double left_s = passed_s * std::max(0.0, 1 - share) / share;
  std::fputs("\r", stderr);
  print_to(stderr, "{}: {:.0f} %, about {} left", what, share * 100,
           left_s < 1 ? "1 s" : show_duration(std::round(left_s)));
  std::fputs("\033[K", stderr);
}

}  // namespace meshwright::tools
