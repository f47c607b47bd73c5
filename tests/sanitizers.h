// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_SANITIZERS_H
#define TOPOOPT_TESTS_SANITIZERS_H

namespace topoopt::test
{

// Under AddressSanitizer, without optimisation, a run takes forty times as long. What such a build looks for is found by the
// first cases of a kind; how many there are is the concern of the release build.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_SANITIZERS_H
