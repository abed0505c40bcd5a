// Catch2 itself, compiled once for all test programs.
#define CATCH_CONFIG_RUNNER
#include "tests/session.h"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#include <catch2/catch.hpp>
#endif

int run_test_cases(int argc, char* argv[]) { return Catch::Session().run(argc, argv); }
