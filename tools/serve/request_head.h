// Checks the head of an HTTP request, from its first line to the empty one. Proxies and servers
// that read a doubtful head differently can be made to disagree about where a request ends (request
// smuggling), so the server accepts only heads that can be read in one way.
#pragma once

#include <string>
#include <string_view>

namespace meshwright::tools {

// Returns what is wrong with a head, or an empty string if it is good. It rejects what RFC 9112
// tells or allows servers to reject: lines that do not end with CR LF or that continue on the next
// one, names of headers with characters that a token cannot have, control characters, and a length
// of the body that is given more than once or in another way than by at most 15 digits or by
// `Transfer-Encoding: chunked` of HTTP/1.1. Whoever reads a connection calls it before anything
// else sees the request.
std::string fault_of_head(std::string_view head);

// Returns the head without the headers that ask for a part of the response (Range, If-Range). A
// server may ignore them, and must if the method is not GET. `head` has no fault.
std::string without_ranges(std::string_view head);

}  // namespace meshwright::tools
