// Answers one call in a process of its own, for `serve` and `mcp`: the call comes on standard input
// as JSON (call.h), and the answer goes to standard output.
#pragma once

namespace meshwright::tools {

// Is the first word of a command line that runs run_answering(). The help does not list the word.
inline constexpr const char* answering_word = "answer";

// Reads a call from standard input, runs it, and prints its answer. Standard error gets lines of
// JSON: {"progress": ...} and {"warning": ...} while the call runs, and {"error": ...} if it fails,
// with "out_of_memory" if the system has no more memory. Returns the exit code.
int run_answering();

}  // namespace meshwright::tools
