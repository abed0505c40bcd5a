// --for, --by and --budget: what a job's objective says about time and money, asked on the command
// line.
#pragma once

#include <string>
#include <vector>

#include "tools/options.h"

namespace meshwright {

// Seconds until a date ("2027-01-31": its beginning, in UTC) or of a duration ("30d", "12h",
// "1.5w"). InputError: neither, or not after `today` (as Options::today).
double seconds_until(const std::string& text, int today);

// As --set takes them: deadline and budget; and what is minimized where the job's file does not
// say: dollars where there is a deadline; with a budget alone time, or, where the job does not say
// how long it is, tokens are what there is most of.
std::vector<std::string> question_overrides(const Options& options);

}  // namespace meshwright
