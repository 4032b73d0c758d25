package builtin

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicenet/sluice/internal/config"
)

func checkRate(with *config.Section, perSecond float64) error {
	if perSecond < 0 {
		return with.Errorf("rate", "is %v, and has to be at least 0, which is no limit", perSecond)
	}
	return nil
}

// limiter limits to so many events per second, nil for no limit. What a hundredth
// of a second is late may be caught up with: timers are not exact.
func limiter(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return nil
	}
	burst := int(min(max(perSecond/100, 1), 1<<20))
	l := rate.NewLimiter(rate.Limit(perSecond), burst)
	l.AllowN(time.Now(), burst-1) // the first event may come at once, but alone
	return l
}
