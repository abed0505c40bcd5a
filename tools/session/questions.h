// Turns --for, --by and --budget into keys of the job.
#pragma once

#include <string>
#include <vector>

#include "tools/session/requests.h"

namespace meshwright::session {

// Returns the seconds until a date ("2027-01-31": its beginning, in UTC; see dates.h) or those of a
// duration ("30d", "12h"). `today` is in days since 1970-01-01. Throws InputError if `text` is
// neither, is a number without a unit, or is a date that is not after today.
double seconds_until(const std::string& text, int today);

// Returns a note on which date --by means, if it names a date in another form than YYYY-MM-DD.
// Otherwise returns "".
std::string deadline_note(const std::string& by, int today);

// Returns the keys of the job, as arguments of --set: framework, deadline and budget. With a
// deadline or a budget, the objective is set too, unless the job's file or --set does. If the job
// does not say how long it is, the number of tokens is maximized. Otherwise dollars are minimized
// with --by, and nothing is set with --budget only.
std::vector<std::string> question_overrides(const JobRequest& request);

}  // namespace meshwright::session
