// Answers one call in a process of its own, for `serve` and `mcp`: the call comes on standard input
// as JSON (call.h), and the answer goes to standard output.
#pragma once

namespace meshwright::tools {

// The word of the command line that asks for it. The help does not list it.
inline constexpr const char* answering_word = "answer";

// Runs the call. Standard error gets lines of JSON: {"progress": ...} and {"warning": ...} while it
// runs, and {"error": ...} if it fails, with "out_of_memory" if that is why. Returns the exit code.
int run_answering();

}  // namespace meshwright::tools
