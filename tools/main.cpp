// Runs the command line and turns what it throws into a message and an exit code.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "tools/command_line.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/session/choose.h"

namespace meshwright::tools {

namespace {

// Returns `code` once standard output is flushed. Throws RunError if this or an earlier write
// failed, because a full disk must not look like a success without output.
int checked_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  throw RunError("standard output cannot be written");
}

}  // namespace

}  // namespace meshwright::tools

int main(int argc, char** argv) {
  using namespace meshwright::tools;
  // If a file may not grow further, the write fails with an error instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return checked_output(run_command_line({argv + 1, argv + argc}));
  } catch (const InputError& error) {
    print_to(stderr, "error: {}\n", error.what());
    return bad_input;
  } catch (const NoPlanFits& error) {
    print_to(stderr, "{}\n", error.what());
    return no_plan_fits;
  } catch (const RunError& error) {
    print_to(stderr, "error: {}\n", error.what());
    return run_failed;
  } catch (const StopRequested& request) {
    print_to(stderr, "{}\n", request.what());
    return stopped;
  } catch (const std::bad_alloc&) {
    std::fputs("error: the system has no more memory\n", stderr);
    return run_failed;
  } catch (const std::system_error& error) {  // such as a thread that cannot be started
    print_to(stderr, "error: {}\n", error.what());
    return run_failed;
  } catch (const std::exception& error) {
    print_to(stderr, "internal error: {}\n", error.what());
    return our_fault;
  }
}
