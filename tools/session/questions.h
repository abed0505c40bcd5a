// Turns --for, --by and --budget into keys of the job's objective.
#pragma once

#include <string>
#include <vector>

#include "tools/session/requests.h"

namespace meshwright::session {

// Returns the seconds until a date ("2027-01-31": its beginning, in UTC; see dates.h) or those of a
// duration ("30d", "12h", "1.5w"). `today` is in days since 1970-01-01. Throws InputError if `text`
// is neither, or a date that is not after today.
double seconds_until(const std::string& text, int today);

// Returns the date that --by names, if it is not written as YYYY-MM-DD, for people. Empty for
// durations.
std::string deadline_note(const std::string& by, int today);

// Returns the keys of the job, as arguments of --set: framework, deadline and budget, and what is
// minimized if neither the job's file nor --set says it. If the job does not say how long it is,
// the number of tokens is maximized. Otherwise dollars are minimized with --by, and time with
// --budget only.
std::vector<std::string> question_overrides(const JobRequest& request);

}  // namespace meshwright::session
