// Catch2, whichever generation the system has (2.13 on Debian 12, 3.x on Ubuntu 24.04).
#pragma once
// An assertion is compiled in two thirds of the time. What its expression throws ends the test
// case, which fails, at once.
#define CATCH_CONFIG_FAST_COMPILE
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
#include "models/core/rooms.h"
