#!/bin/sh
# Forecasts the yearly flow of the Nile at Aswan, 1871 to 1970, by exponential smoothing with a damped trend:
#   sh train.sh --level=0.3 --trend=0.1 --damping=0.9 --years=10
# Prints the root mean square error of the forecasts one year ahead, over all years so far, as `error=E step=YEAR`.
set -eu
level=0.5 trend=0.1 damping=0.9 years=5
for argument in "$@"; do
    case $argument in
    --level=*) level=${argument#*=} ;;
    --trend=*) trend=${argument#*=} ;;
    --damping=*) damping=${argument#*=} ;;
    --years=*) years=${argument#*=} ;;
    --job-dir=*) ;;
    *)
        echo "train.sh: unknown argument $argument" >&2
        exit 2
        ;;
    esac
done

awk -F, -v level="$level" -v trend="$trend" -v damping="$damping" -v years="$years" '
    NR == 1 { next }                                        # The heading.
    NR <= years + 1 { smoothed += $2 / years; next }        # The first years give the initial level.
    {
        forecast = smoothed + damping * slope
        former = smoothed
        smoothed = level * $2 + (1 - level) * forecast
        slope = trend * (smoothed - former) + (1 - trend) * damping * slope
        if ($1 <= 1890) next                                # Validation starts where every setting has a forecast.
        squares += ($2 - forecast) ^ 2
        count += 1
        if ($1 % 10 == 0) printf "error=%.4f step=%d\n", sqrt(squares / count), $1
    }
' "$(dirname "$0")/nile.csv"
