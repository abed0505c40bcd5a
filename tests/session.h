// Runs the test cases that the arguments of a test program name, or all. Its main calls it.
#pragma once

int run_test_cases(int argc, char* argv[]);
