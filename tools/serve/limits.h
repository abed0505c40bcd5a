// Limits what one client may take of the server.
#pragma once

#include <chrono>
#include <cstddef>

namespace meshwright::tools {

inline constexpr std::size_t most_body_bytes = 1'000'000;
inline constexpr std::size_t most_header_bytes = 32'768;
// Limits the time from the beginning of the connection to the last byte of the request.
inline constexpr std::chrono::seconds to_send_request{5};
// Limits the time in which a client may take none of the response's bytes before it is given up.
inline constexpr std::chrono::seconds to_take_answer{10};
// Limit, in bytes and time, the reading of what the client still sends after its response. Reading
// it lets the response reach the client.
inline constexpr std::size_t most_unread_bytes = 64'000'000;
inline constexpr std::chrono::seconds to_send_rest{5};

// Limits how many clients the server waits for at once: for the rest of their requests, or until
// they take their responses. For a further client, it gives up the one that it has waited for
// longest (crowd.h).
inline constexpr int most_awaited = 64;
// Limits how many commands run at once. There are as many as usable cores, up to this number, and
// each may use all cores.
inline constexpr int most_running = 8;
// Limits the time of one command, once it has begun.
inline constexpr std::chrono::seconds to_search{600};
// Limits the bytes that a command may print on standard output, or in one line of standard error.
inline constexpr std::size_t most_answer_bytes = 256'000'000;
// Limits how many commands may wait, as a multiple of those that may run at once.
inline constexpr int waiting_per_running = 4;
// Has the number of threads of the server: one for each client that it waits for and each command
// that runs or waits, and a few for connections that are about to end.
inline constexpr int server_threads = most_awaited + (1 + waiting_per_running) * most_running + 8;

}  // namespace meshwright::tools
