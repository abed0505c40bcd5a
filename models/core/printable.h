// Text of a job or a data file as a terminal may have it.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Control characters, which would move the cursor, colour what follows or give the window a name,
// as `\x1b`; C1 ones, which some terminals obey in UTF-8 too, as `\x9b`. Ends of lines and
// tabulators stay.
std::string printable(std::string_view text);

}  // namespace meshwright
