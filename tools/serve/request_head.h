// The head of an HTTP request, from its first line to the empty one. Proxies and servers that read
// a doubtful head differently can be made to disagree about where a request ends (request
// smuggling), so the server takes only heads that can be read in one way.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns what is wrong with a head, or nothing if it may be read. RFC 9112 says what a server must
// or may refuse: lines that do not end with CR LF or that go on the next one, a header's name with
// other characters than a token's, control characters, and a length of the body that is not said
// exactly once, as digits or as `Transfer-Encoding: chunked`. Whoever reads a connection calls it
// before anything else sees the request.
std::string fault_of_head(std::string_view head);

// Returns the head without the headers that ask for a part of the answer. A server may ignore them,
// and must where the method is not GET. `head` has no fault.
std::string without_ranges(std::string_view head);

}  // namespace meshwright
