"""What every suite shares: the result document, its verdicts, progress, and real worker processes."""
