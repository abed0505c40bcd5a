// The entry point of every test program of one process.
#include "tests/session.h"

int main(int argc, char* argv[]) { return run_test_cases(argc, argv); }
