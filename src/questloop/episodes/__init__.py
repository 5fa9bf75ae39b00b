"""The shared vocabulary: traces, segments, episodes, takeovers and outcomes, and how they are stored."""
